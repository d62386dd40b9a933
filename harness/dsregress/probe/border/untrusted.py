"""Reads files that others wrote, or could have written: ranks under test, earlier runs, other users. Both sides use it.

Such a file may be a pipe that never ends, a link to a device, or larger than memory. So only regular files are read, and no
more of them than the caller expects. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat

#: The largest file of a run or of its results, decompressed: the largest of those published has 98 KB.
MOST_FILE_BYTES = 1 << 24

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}

#: Neither waits for the other end of a pipe, nor makes a terminal ours, nor leaks into a child.
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: str | os.PathLike[str], *, follow_links: bool = False) -> int:
    """Return a descriptor of a regular file, opened for reading. Raise OSError for anything else, with its kind in
    ``strerror``.

    ``follow_links`` is for a path that the user has named; a link among others' files leads anywhere.
    """
    try:
        handle = os.open(path, _FLAGS if follow_links else _FLAGS | os.O_NOFOLLOW)
    except ValueError as error:  # a NUL in it
        raise OSError(errno.EINVAL, f"no path: {error}", os.fspath(path)) from None
    except OSError as error:
        if error.errno == errno.ELOOP and not follow_links:
            raise OSError(errno.ELOOP, "a link, not a regular file", os.fspath(path)) from None
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "a socket, not a regular file", os.fspath(path)) from None
        raise
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"{kind}, not a regular file", os.fspath(path))
    return handle


def read_regular(path: str | os.PathLike[str], limit_bytes: int, *, follow_links: bool = False) -> bytes:
    """Return the content of a regular file of at most ``limit_bytes``. Raise as `open_regular`, and OSError for a larger
    file."""
    handle = open_regular(path, follow_links=follow_links)
    try:
        size = os.fstat(handle).st_size
        data = b""
        while size <= limit_bytes:
            more = os.read(handle, max(size - len(data), 0) + 1)
            if not more:
                return data
            data += more
            size = max(size, len(data))  # a file may grow while it is read, and those of /proc have no size
    finally:
        os.close(handle)
    raise OSError(errno.EFBIG, f"larger than {_mebibytes(limit_bytes)}", os.fspath(path))


def read_tail(path: str | os.PathLike[str], length: int, *, follow_links: bool = False) -> bytes:
    """Return the last ``length`` bytes of a regular file, however large it is. Raise as `open_regular`."""
    handle = open_regular(path, follow_links=follow_links)
    try:
        os.lseek(handle, max(0, os.fstat(handle).st_size - length), os.SEEK_SET)
        return os.read(handle, length)
    finally:
        os.close(handle)


def _mebibytes(size: int) -> str:
    return f"{size / (1 << 20):g} MiB"
