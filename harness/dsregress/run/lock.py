"""One run at a time in one folder: two at once would spoil each other's times."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from dsregress.errors import EnvironmentUnavailable
from dsregress.probe.border.untrusted import read_tail
from dsregress.system.files import write_atomically
from dsregress.system.kept import end_marked
from dsregress.system.locks import try_lock
from dsregress.system.obstacles import obstacle_error
from vgpu.trees import remove_tree


@contextlib.contextmanager
def run_lock(folder: Path) -> Iterator[dict[str, int]]:
    """Hold the folder for one run within the block. The kernel releases the lock when the process ends, however it ends.

    End the processes that earlier runs left running (name -> count is yielded) and remove their scratch files. Raise
    EnvironmentUnavailable if another run holds it, or if it cannot be written.
    """
    file = folder / "run.lock"
    holder = folder / "run.pid"  # beside the lock, as some releases of filelock truncate the file they lock
    with _lock_errors(file):
        folder.mkdir(parents=True, exist_ok=True)
        lock = try_lock(file)
    if lock is None:
        raise EnvironmentUnavailable(
            f"another run is in progress in this folder (process {_process(holder)}); "
            "two runs would disturb each other's measurements",
            where=str(file),
            hint="wait for it to finish, or set DSREGRESS_ENVIRONMENTS to another folder",
        )
    try:
        with _lock_errors(file):
            write_atomically(holder, f"{os.getpid()}\n".encode(), durable=False)
        runs = folder / "runs"
        left = end_marked(str(runs)) if runs.exists() else {}
        remove_tree(runs)
        yield left
    finally:
        lock.release()


@contextlib.contextmanager
def _lock_errors(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "set DSREGRESS_ENVIRONMENTS to another folder"
        raise obstacle_error(EnvironmentUnavailable, "cannot be written", error, where=file, hint=hint) from None


def _process(holder: Path) -> str:
    try:
        return read_tail(holder, 32).decode("ascii", "replace").strip() or "unknown"
    except OSError:
        return "unknown"
