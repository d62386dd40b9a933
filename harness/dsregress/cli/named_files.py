"""Files that the user names on the command line, and stdin: of bounded size, and only if reading ends."""

from __future__ import annotations

import sys
from collections import deque
from typing import IO

from dsregress.errors import UsageError
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular, read_tail

#: Most bytes that are read of stdin if only its end counts.
_MOST_STDIN_BYTES = 1 << 30

_PIECE_BYTES = 1 << 20

#: The name of `-` in messages.
STDIN = "stdin"


def read_named(file: str, *, hint: str) -> bytes:
    """Return all of a regular file, or with ``-`` of stdin. Raise UsageError, which ends with ``hint``."""
    if file == "-":
        data = _stdin().read(MOST_FILE_BYTES + 1)
        if len(data) > MOST_FILE_BYTES:
            raise UsageError(f"longer than {MOST_FILE_BYTES >> 20} MiB", where=STDIN, hint=hint)
        return data
    try:
        return read_regular(file, MOST_FILE_BYTES, follow_links=True)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=file, hint=hint) from None


def read_end(file: str, length: int, *, hint: str) -> bytes:
    """Return the last ``length`` bytes of a regular file, or with ``-`` of stdin. Raise UsageError, which ends with
    ``hint``."""
    if file == "-":
        return _end_of_stdin(length, hint)
    try:
        return read_tail(file, length, follow_links=True)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=file, hint=hint) from None


def _end_of_stdin(length: int, hint: str) -> bytes:
    stream = _stdin()
    kept: deque[bytes] = deque(maxlen=length // _PIECE_BYTES + 1)
    read = 0
    while piece := stream.read(_PIECE_BYTES):
        kept.append(piece)
        read += len(piece)
        if read > _MOST_STDIN_BYTES:
            raise UsageError(f"longer than {_MOST_STDIN_BYTES >> 20} MiB", where=STDIN, hint=hint)
    return b"".join(kept)[-length:]


def _stdin() -> IO[bytes]:
    """Return stdin. Raise UsageError if it is closed."""
    stream: IO[bytes] | None = getattr(sys.stdin, "buffer", None)
    if stream is None:  # Python leaves None where the descriptor was closed
        raise UsageError("is closed", where=STDIN, hint="pipe a text into it, or name a file")
    return stream
