"""The files of results by their paths, in a folder, or in a bundle as if it were one.

    results/STACK/SCENARIO/NAME.json                        a file
    results/2026-11-21.jsonl.gz/STACK/SCENARIO/NAME.json    a line of a bundle (see `dsregress.store.bundle_file`)

All readers of results use these functions.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.store import bundle_file
from dsregress.store.bundle_file import Bundle
from dsregress.system.decoding import Damaged, decompressed


def file_names(folder: str) -> list[str]:
    """Return the names of a folder's entries that are not folders, sorted, without hidden ones; none if the folder does not
    exist. An entry that is not a regular file is noticed when it is read. Raise OSError."""
    found = _in_bundle(folder)
    if found is not None:
        opened, inner = found
        return opened.names(inner)
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.name[0] != "." and not _is_folder(entry))
    except (FileNotFoundError, NotADirectoryError):
        return []


def subfolders(folder: str) -> list[str]:
    """Return the paths of the folders in a folder, sorted, without hidden ones; links are not followed. Raise OSError."""
    found = _in_bundle(folder)
    if found is not None:
        opened, inner = found
        return [os.path.join(folder, name) for name in opened.folders(inner)]
    try:
        with os.scandir(folder) as entries:
            paths = [e.path for e in entries if e.is_dir(follow_symlinks=False) and e.name[0] != "."]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(paths)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Return True for a folder whose name is not that of a file of results."""
    return entry.is_dir(follow_symlinks=False) and not entry.name.endswith((".json", ".json.gz"))


def read_bytes(file: str) -> bytes:
    """Return the whole file. Raise OSError, also if it is not a regular file or too large."""
    found = _in_bundle(file)
    if found is not None:
        opened, inner = found
        return opened.read(inner)
    return read_regular(file, MOST_FILE_BYTES)


#: Gets a file that cannot be read, and why.
ProblemHandler = Callable[[str, str], None]


def silent(file: str, why: str) -> None:
    """Ignore a problem that the user need not see. A `ProblemHandler`."""


def why_unread(error: OSError | Damaged) -> str:
    """Return, in a few words, why `read` or `read_compressed` could not read a file."""
    if isinstance(error, Damaged):
        return f"damaged: {error}"
    damaged = error.errno in (errno.EINVAL, errno.ELOOP, errno.ENXIO, errno.EFBIG)
    return f"{'damaged' if damaged else 'cannot be read'}: {error.strerror}"


def read_compressed(file: str) -> bytes:
    """Return the content of a file compressed by gzip. Raise as `read`, and Damaged."""
    if _in_bundle(file) is not None:
        return read_bytes(file)  # a bundle is compressed as a whole
    return decompressed(read_bytes(file), MOST_FILE_BYTES)


def is_bundle(path: str) -> bool:
    """Return True if the path is a bundle's own: by its name alone, so that a missing bundle is noticed as such."""
    return path.endswith(bundle_file.SUFFIX) and not os.path.isdir(path)


def unreadable_parts(root: str) -> tuple[str, ...]:
    """Return one line for each part of a bundle that could not be read; none for a folder. Raise OSError, ResultsError."""
    found = _in_bundle(root)
    return () if found is None else found[0].problems


def _in_bundle(path: str) -> tuple[Bundle, str] | None:
    """Return the bundle that a path leads into, and the path inside it; None for the path of a file or a folder."""
    head, suffix, inner = path.rpartition(bundle_file.SUFFIX)
    if not suffix or inner[:1] not in ("", "/") or os.path.isdir(head + suffix) or not os.path.exists(head + suffix):
        return None
    return bundle_file.opened(head + suffix), inner[1:]
