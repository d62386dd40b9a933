"""Files and folders that are complete or absent."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.probe.border.trees import remove_tree

#: How a file system says that it has no hard links.
_NO_LINKS = frozenset((errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK))


def write_atomically(file: str | Path, data: bytes | Iterable[bytes], *, durable: bool = True) -> None:
    """Replace ``file`` by ``data`` (one piece, or several in order): a reader, or a crash at any moment, finds the old
    content or the new, never a part.

    ``durable`` waits for the disk; without it, only a crash of the whole machine may leave an empty file. Raises OSError,
    and what making the pieces raises.
    """
    with _written_beside(file, data, durable=durable) as temporary:
        os.replace(temporary, file)


def create_atomically(file: str | Path, data: bytes) -> None:
    """As `write_atomically`, but what is there stays: of several that write one file at once, one succeeds. Raises
    FileExistsError where it is there already, OSError.

    Where the file system has no hard links, a reader may for a moment find an empty file, and so may a crash leave it.
    """
    with _written_beside(file, data, durable=True) as temporary:
        try:
            os.link(temporary, file)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))  # now the name is ours
            os.replace(temporary, file)


@contextlib.contextmanager
def _written_beside(file: str | Path, data: bytes | Iterable[bytes], *, durable: bool) -> Iterator[str]:
    """A temporary file with the content, which is gone afterwards."""
    folder = os.path.dirname(os.path.abspath(file))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".partial-")
    try:
        with open(handle, "wb") as stream:
            stream.writelines([data] if isinstance(data, bytes) else data)
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would hide it from other users of the folder
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def write_requested(file: str | Path, data: bytes | Iterable[bytes]) -> None:
    """Write a file that the user has named: as `write_atomically`, through a link to where it leads. A device or a pipe
    (``/dev/null``, ``>(jq .)``) is written to, and never replaced by a file. Raises OSError."""
    pieces = [data] if isinstance(data, bytes) else data
    if os.path.exists(file) and not os.path.isfile(file):
        with open(file, "wb") as stream:  # IsADirectoryError for a folder
            stream.writelines(pieces)
    else:
        write_atomically(os.path.realpath(file), pieces)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """An empty folder to fill, which becomes ``folder`` at the end. It is removed on an error, and where another process
    has made ``folder`` meanwhile. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".unfinished-"))
    try:
        yield unfinished
        unfinished.chmod(0o755)  # mkdtemp's 0700 would hide it from other users, as in a container
        try:
            os.rename(unfinished, folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        remove_tree(unfinished)
