"""The copy of the probe that is measured with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.launch import staging


@pytest.fixture
def scenarios(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "one.py").write_text("SCENARIO = 1\n")
    return folder


def test_the_copy_holds_the_probe_and_the_scenarios_alone(tmp_path: Path, scenarios: Path) -> None:
    folder = staging.stage(staging.probe_files(scenarios), tmp_path / "probe")
    copied = {str(file.relative_to(folder)) for file in folder.rglob("*.py")}
    assert {"harness/__init__.py", "harness/probe/process/server.py", "scenarios/one.py"} <= copied
    assert not [name for name in copied if not name.startswith(("harness/probe/", "scenarios/", "harness/__init__"))]
    program = "import harness.probe.border.wire; print(harness.__file__)"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(folder / "harness" / "__init__.py")


def test_equal_content_is_copied_once_and_an_edit_makes_another(tmp_path: Path, scenarios: Path) -> None:
    first = staging.stage(staging.probe_files(scenarios), tmp_path / "probe")
    assert staging.stage(staging.probe_files(scenarios), tmp_path / "probe") == first
    (scenarios / "one.py").write_text("SCENARIO = 2\n")
    assert staging.stage(staging.probe_files(scenarios), tmp_path / "probe") != first
    assert (first / "scenarios" / "one.py").read_text() == "SCENARIO = 1\n"


def test_a_missing_folder_of_scenarios_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent: no such folder"):
        staging.probe_files(tmp_path / "absent")


def test_the_hash_of_what_measures_covers_the_probe_alone(tmp_path: Path, scenarios: Path) -> None:
    before = staging.probe_files(scenarios)
    for name in ("one.py", "models.py", "families.py"):
        (scenarios / name).write_text("CHANGED = 1\n")
    after = staging.probe_files(scenarios)
    assert staging.measuring_sha256(after) == staging.measuring_sha256(before)
    edited = {**after, "harness/probe/process/server.py": b"CHANGED = 1\n"}
    assert staging.measuring_sha256(edited) != staging.measuring_sha256(before)
