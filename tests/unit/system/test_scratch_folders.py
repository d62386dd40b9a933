"""Folders for the time of a command."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dsregress.system import scratch_folders
from tests.paths import SOURCE

HOLD = """
from dsregress.system.scratch_folders import scratch_folder
with scratch_folder() as folder:
    print(folder, flush=True)
    input()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch_folders, "_YOUNG_S", -1.0)
    return tmp_path


def test_a_folder_is_empty_and_gone_at_the_end(temporary: Path) -> None:
    with scratch_folders.scratch_folder() as folder:
        assert list(folder.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_by_the_next_and_one_in_use_stays(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holding:
        assert holding.stdout is not None
        theirs = Path(holding.stdout.readline().strip())
        scratch_folders._remove_abandoned.cache_clear()
        with scratch_folders.scratch_folder():
            assert theirs.is_dir()
        holding.kill()
    assert theirs.is_dir()
    scratch_folders._remove_abandoned.cache_clear()
    with scratch_folders.scratch_folder():
        assert not theirs.exists()
