"""A compilation that was killed leaves a lock, for which torch would wait for ever."""

from __future__ import annotations

import os
from pathlib import Path

from dsregress.probe.process import jit


def test_the_lock_of_a_compilation_that_was_killed_is_removed_and_one_that_is_held_stays(tmp_path: Path) -> None:
    abandoned, held = tmp_path / "one" / "lock", tmp_path / "two" / "lock"
    for lock in (abandoned, held):
        lock.parent.mkdir()
    abandoned.touch()
    holding = os.open(held, os.O_CREAT | os.O_EXCL)  # as torch.utils.file_baton
    try:
        jit.remove_abandoned_locks({"TORCH_EXTENSIONS_DIR": str(tmp_path)})
        assert not abandoned.exists()
        assert held.exists()
    finally:
        os.close(holding)
    jit.remove_abandoned_locks({"TORCH_EXTENSIONS_DIR": str(tmp_path)})
    assert not held.exists()


def test_without_a_folder_of_extensions_there_is_nothing_to_do(tmp_path: Path) -> None:
    jit.remove_abandoned_locks({})
    jit.remove_abandoned_locks({"TORCH_EXTENSIONS_DIR": str(tmp_path / "none")})
