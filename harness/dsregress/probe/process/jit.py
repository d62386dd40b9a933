"""Extensions that torch compiles while it runs, in the folder TORCH_EXTENSIONS_DIR that a stack's cells share."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

#: torch.utils.file_baton: created and held open by the process that compiles an extension, removed at the end.
_LOCK = "lock"


def remove_abandoned_locks(environment: Mapping[str, str] = os.environ) -> None:
    """Remove the locks of compilations that were killed: torch would wait for them forever. Linux only."""
    root = environment.get("TORCH_EXTENSIONS_DIR")
    locks = list(Path(root).glob(f"*/{_LOCK}")) if root else []
    if not locks or not os.path.isdir("/proc/self/fd"):
        return
    held = set(_open_files())
    for lock in locks:
        with contextlib.suppress(OSError):
            found = lock.lstat()
            if (found.st_dev, found.st_ino) not in held:
                lock.unlink()


def _open_files() -> Iterator[tuple[int, int]]:
    """Yield device and inode of every open file of this user's processes."""
    for handle in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            found = handle.stat()
            yield found.st_dev, found.st_ino
