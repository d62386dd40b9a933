"""A command that cannot be started says whether it is its own fault."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsregress.system import kept


def _started(command: str, folder: Path) -> kept.Kept:
    end = subprocess.DEVNULL
    return kept.Kept([command], folder=str(folder), environment=os.environ, stdin=end, stdout=end, stderr=end)


def test_a_command_that_is_not_there_is_no_late_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _started(str(tmp_path / "python"), tmp_path)


def test_a_keeper_that_the_machine_does_not_start_in_time_is_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_KEEPER", "import time; time.sleep(60)")
    monkeypatch.setattr(kept, "_STARTING_S", 0.1)
    monkeypatch.setattr(kept, "_ENDING_S", 0.1)
    with pytest.raises(TimeoutError):
        _started(sys.executable, tmp_path)


def test_a_keeper_that_ends_at_once_is_not_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "_KEEPER", "pass")
    with pytest.raises(OSError, match="its keeper process did not start"):
        _started(sys.executable, tmp_path)
