"""The files that a program has written in the folder of its run, kept for another run that goes on from them.

Standard library only.
"""

from __future__ import annotations

import filecmp
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

#: Folders in which Python keeps what it compiles.
_COMPILED = "__pycache__"


def keep_written_files(folder: Path, source: Path, kept: Path) -> None:
    """Move what is new or changed in ``folder``, which was made from ``source``, to ``kept``. Raise OSError."""
    for name in list(_regular_files(folder)):
        if not _is_alike(folder / name, source / name):
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / name, kept / name)


def put_written_files(kept: Path, folder: Path) -> None:
    """Copy what was kept to ``folder``, in place of files of the same name. Raise OSError."""
    for name in _regular_files(kept):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)  # a link to the user's
        shutil.copy2(kept / name, folder / name)


def _regular_files(folder: Path) -> Iterator[str]:
    """Yield the relative paths of the files below a folder that are no links."""
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != _COMPILED]
        for name in files:
            path = os.path.join(at, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, folder)


def _is_alike(file: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(file, other, shallow=False)
