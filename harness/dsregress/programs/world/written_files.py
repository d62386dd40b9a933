"""The files that a program has written in the folder of its run, kept for another run that goes on from them.

Standard library only.
"""

from __future__ import annotations

import filecmp
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: Folders in which Python keeps what it compiles.
_COMPILED = "__pycache__"

#: Ends of the names of files without weights or another state: they are read to be written anew, too, as a model card is.
_WITHOUT_STATE = re.compile(r"\.(?:md|txt|jsonl?|jinja|ya?ml|toml|csv|log|py|model|vocab)$")

#: A part of the names of TensorBoard's files.
_EVENTS = ".tfevents."


def keep_written_files(folder: Path, source: Path, kept: Path) -> None:
    """Move what is new or changed in ``folder``, which was made from ``source``, to ``kept``. Raise OSError."""
    for name in list(_regular_files(folder)):
        if not _is_alike(folder / name, source / name):
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(folder / name, kept / name)


def put_written_files(kept: Path, folder: Path) -> None:
    """Copy what was kept to ``folder``, in place of files of the same name, as never read: see `are_read`. Raise OSError."""
    for name in _regular_files(kept):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).unlink(missing_ok=True)  # a link to the user's
        shutil.copy2(kept / name, folder / name)
        _set_unread(folder / name)


def are_read(kept: Path, folder: Path) -> bool | None:
    """Return True if any file of weights, or of another state, that was put from ``kept`` into ``folder`` has been read
    since, by whatever reads, or is no longer there. If none has, any other file counts. Return None if the file system does
    not say when a file was read."""
    names = list(_regular_files(kept))
    of_state = [name for name in names if not _WITHOUT_STATE.search(name) and _EVENTS not in name]
    if any(map(_is_read, (folder / name for name in of_state or names))):
        return True
    return False if _says_when_read(folder) else None


def _set_unread(file: Path) -> None:
    """Set the time of the last access before that of the last change, which makes the next read set it (see ``relatime`` in
    mount(8))."""
    os.utime(file, ns=(0, file.stat().st_mtime_ns))


def _is_read(file: Path) -> bool:
    return not file.is_file() or file.stat().st_atime_ns > 0


def _says_when_read(folder: Path) -> bool:
    with tempfile.NamedTemporaryFile(dir=folder) as trial:
        trial.write(b"read")
        trial.flush()
        _set_unread(Path(trial.name))
        Path(trial.name).read_bytes()
        return _is_read(Path(trial.name))


def _regular_files(folder: Path) -> Iterator[str]:
    """Yield the relative paths of the files below a folder that are no links, without what leads git to the user's
    repository."""
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != _COMPILED]
        for name in files:
            path = os.path.join(at, name)
            if name != ".git" and os.path.isfile(path) and not os.path.islink(path):
                yield os.path.relpath(path, folder)


def _is_alike(file: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(file, other, shallow=False)
