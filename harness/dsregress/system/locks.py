"""Locks between processes. The kernel releases a lock when its process ends, however it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, Timeout


@contextlib.contextmanager
def held(file: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock file within the block. Call ``waiting`` if another process holds it, and wait. Raise OSError."""
    lock = FileLock(file)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def try_lock(file: Path) -> FileLock | None:
    """Return the lock file, held until it is released from any thread; None if another process holds it. Raise OSError."""
    lock = FileLock(file, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock
