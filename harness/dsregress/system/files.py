"""Files and folders that are complete or absent."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from vgpu.trees import remove_tree

_LOG = logging.getLogger(__package__)

#: Of new files, before the user's umask.
_MODE = 0o666

#: Errors of a file system without hard links.
_NO_LINKS = frozenset((errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))


def write_atomically(
    file: str | Path, data: bytes | Iterable[bytes], *, durable: bool = True, private: bool = False
) -> None:
    """Replace ``file`` by ``data`` (one piece, or several in order): a reader, or a crash at any moment, finds the old
    content or the new, never a part.

    ``durable`` waits for the disk; without it, only a crash of the whole machine may leave an empty file. A ``private`` file
    is its owner's alone; else the user's umask decides who reads it. Raise OSError, and errors of making the pieces.
    """
    with _written_beside(file, data, durable=durable, mode=0o600 if private else _MODE) as temporary:
        os.replace(temporary, file)


def create_atomically(file: str | Path, data: bytes) -> None:
    """Write a file as `write_atomically` does, but keep an existing one: of several that write one file at once, one
    succeeds. Raise FileExistsError if it already exists, OSError.

    If the file system has no hard links, a reader may for a moment find an empty file, and so may a crash leave it.
    """
    with _written_beside(file, data, durable=True) as temporary:
        try:
            os.link(temporary, file)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE))  # now the name is ours
            os.replace(temporary, file)


@contextlib.contextmanager
def _written_beside(
    file: str | Path, data: bytes | Iterable[bytes], *, durable: bool, mode: int = _MODE
) -> Iterator[str]:
    """Yield a temporary file with the content, which is gone afterwards."""
    # Not by tempfile, whose files nobody else may read, whatever the umask.
    temporary = os.path.join(os.path.dirname(os.path.abspath(file)), f".partial-{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(handle, "wb") as stream:
            stream.writelines([data] if isinstance(data, bytes) else data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def write_requested(file: str | Path, data: bytes | Iterable[bytes]) -> None:
    """Write a file that the user has named: as `write_atomically`, to the target of a link. A device or a pipe
    (``/dev/null``, ``>(jq .)``) is written to, and never replaced by a file. Raise OSError."""
    pieces = [data] if isinstance(data, bytes) else data
    if os.path.exists(file) and not os.path.isfile(file):
        with open(file, "wb") as stream:  # IsADirectoryError for a folder
            stream.writelines(pieces)
    else:
        write_atomically(os.path.realpath(file), pieces)
    _LOG.debug("wrote %s", file)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield an empty folder to fill, which becomes ``folder`` at the end. It is removed on an error, and if another process
    has made ``folder`` meanwhile. Raise OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = folder.parent / f".unfinished-{secrets.token_hex(8)}"
    unfinished.mkdir()
    try:
        yield unfinished
        try:
            os.rename(unfinished, folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        remove_tree(unfinished)
