"""Logs of what a framework prints: bounded on disk. Code under test writes them."""

from __future__ import annotations

import os
import stat

#: A log may grow to the first number of bytes between two looks at it; then its beginning and its end stay.
LONGEST_BYTES = 16 << 20
_KEPT_BYTES = 1 << 20

#: How often to look at a log.
LOOK_S = 1.0

_CUT = b"\n[... cut here: the log grew too long ...]\n"


def open_log(path: str | os.PathLike[str]) -> int:
    """A file descriptor of a new log. What is written is appended, so that it can be cut while it is written."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)


def is_log(handle: int) -> bool:
    """Whether a file descriptor is a regular file that can be cut."""
    try:
        return stat.S_ISREG(os.fstat(handle).st_mode)
    except OSError:
        return False


def shorten(handle: int) -> None:
    """Cuts out the middle of a log that has grown too long. What is written during the cut may be lost."""
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
    """`shorten` every log in a folder; links and what is no regular file are left alone."""
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
