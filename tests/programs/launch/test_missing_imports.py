"""Modules that a program needs and that are not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.probe import program_imports
from dsregress.programs.launch import missing_imports

TRAIN = """
import json
import absent_one.part
from absent_two import something
from utils import helper
from . import beside
if False:
    import absent_but_conditional
try:
    import absent_but_optional
except ImportError:
    pass
def later():
    import absent_but_later
"""


def test_all_that_its_files_need_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "utils").mkdir()
    (tmp_path / "utils" / "__init__.py").write_text("from .deep import x")
    (tmp_path / "utils" / "deep.py").write_text("import absent_three")
    (tmp_path / "utils" / "helper.py").write_text("import absent_four, utils")
    (tmp_path / "beside.py").write_text("this is no Python")
    missing = missing_imports.missing_modules([tmp_path / "train.py"], [str(tmp_path)])
    assert missing == ["absent_four", "absent_one", "absent_three", "absent_two"]


def test_a_relative_import_from_above_all_folders_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(f"import absent_one\nfrom {'.' * 99} import x\nimport absent_two\n")
    monkeypatch.chdir(tmp_path)
    assert missing_imports.missing_modules([Path("train.py")], [str(tmp_path)]) == ["absent_one", "absent_two"]


def test_a_module_of_the_programs_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name in ("__init__.py", "train.py", "other.py"):
        (tmp_path / "package" / name).touch()
    files = program_imports.own_files("package.train", [str(tmp_path)])
    assert files == [tmp_path / "package" / "__init__.py", tmp_path / "package" / "train.py"]
