"""Logs of frameworks' output: bounded on disk, as code under test writes them."""

from __future__ import annotations

import os
import stat

#: A log may grow to this many bytes between two checks; then the second number of bytes stays at each end.
LONGEST_BYTES = 16 << 20
_KEPT_BYTES = 1 << 20

#: Time between two checks of a log.
LOOK_S = 1.0

_CUT = b"\n[... cut here: the log grew too long ...]\n"


def open_log(path: str | os.PathLike[str]) -> int:
    """Open a new log and return its file descriptor. Writes are appended, so that it can be cut while it is written."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)


def is_log(handle: int) -> bool:
    """Return True if a file descriptor is a regular file that can be cut."""
    try:
        return stat.S_ISREG(os.fstat(handle).st_mode)
    except OSError:
        return False


def shorten(handle: int) -> None:
    """Cut out the middle of a log that has grown too long. Text written during the cut may be lost."""
    try:
        size = os.fstat(handle).st_size
        if size <= LONGEST_BYTES:
            return
        end = os.pread(handle, _KEPT_BYTES, size - _KEPT_BYTES)
        os.ftruncate(handle, _KEPT_BYTES)
        os.write(handle, _CUT + end)
    except OSError:
        pass


def shorten_all(folder: str | os.PathLike[str]) -> None:
    """Shorten every log in a folder (`shorten`); links and irregular files are left alone."""
    try:
        names = [entry.path for entry in os.scandir(folder) if entry.name.endswith(".log")]
    except OSError:
        return
    for name in names:
        try:
            if os.lstat(name).st_size <= LONGEST_BYTES:
                continue
            handle = os.open(name, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            if is_log(handle):
                shorten(handle)
        finally:
            os.close(handle)
