"""The packages that a workload uses are those of the objects that it makes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from dsregress.probe.meters.used_packages import UsedPackages


def installed(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import a package of one class from a folder."""
    (folder / name).mkdir(parents=True)
    (folder / name / "__init__.py").write_text("class Layer:\n    children = ()\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


def test_a_package_is_used_once_an_object_of_its_class_or_of_one_derived_from_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peft = installed("tiny_peft", tmp_path / "site-packages", monkeypatch)
    trl = installed("tiny_trl", tmp_path / "site-packages", monkeypatch)
    used = UsedPackages()
    assert used.named() == []  # they are imported

    class Mine(trl.Layer):  # type: ignore[name-defined, misc]
        pass

    made = [peft.Layer(), Mine()]
    assert used.named() == ["tiny_peft", "tiny_trl"]
    del made


def test_neither_what_there_was_before_nor_a_module_of_the_program_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = installed("tiny_ahead", tmp_path / "site-packages", monkeypatch)
    own = installed("tiny_own", tmp_path / "project", monkeypatch)
    there = ahead.Layer()
    used = UsedPackages()
    made = own.Layer()
    assert used.named() == []
    del there, made
