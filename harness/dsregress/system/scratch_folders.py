"""Folders for the time of a command, in the temporary folder. A killed process cannot remove its own: the next one does."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from vgpu.trees import remove_tree

_PREFIX = "dsregress-scratch-"

#: A folder that is younger may not be held yet by the process that has made it.
_YOUNG_S = 60.0


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield an empty folder, removed at the end. A process's first call removes those whose processes were killed. Raise
    OSError."""
    parent = Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(dir=parent, prefix=_PREFIX))
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)  # the kernel releases it when this process ends, however it ends
        yield folder
    finally:
        remove_tree(folder)
        os.close(handle)


@functools.cache
def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if time.time() - os.fstat(handle).st_ctime > _YOUNG_S:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove_tree(folder)
            finally:
                os.close(handle)
