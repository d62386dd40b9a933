"""What a fork imports lazily, its parent imports once."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

from dsregress.probe.process.lazy_imports import import_all, new_modules


def test_what_was_imported_since_is_imported_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_a_framework.py").write_text("LOADED = True")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    import_all(["of_a_framework"])
    assert new_modules(before) == ["of_a_framework"]
    del sys.modules["of_a_framework"]


def test_a_module_that_only_a_rank_can_import_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_ranks_only.py").write_text("raise RuntimeError('no rank')")
    (tmp_path / "that_warns.py").write_text("import warnings; warnings.warn('old', DeprecationWarning)")
    monkeypatch.syspath_prepend(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        import_all(["of_ranks_only", "of_nothing", "that_warns"])
    assert "that_warns" in sys.modules
    del sys.modules["that_warns"]


def test_names_that_are_no_text_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(sys.modules)
    monkeypatch.setitem(sys.modules, 3, sys)  # type: ignore[arg-type]
    assert new_modules(before) == []
