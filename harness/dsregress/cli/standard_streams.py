"""stdout and stderr that cannot fail in the middle of a command.

A report's reader may leave (``| head``), the disk behind ``> file`` fill up, a terminal vanish. None of this may end a
measurement, lose a file that is still to be written, or change a verdict. So a write always succeeds; what a stream
could not take is dropped, and `Output.failure` says why once the command has ended.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDIN, STDOUT, STDERR = 0, 1, 2

#: Errors of a write after the reader of a pipe, or of a socket, has left.
_READER_IS_GONE = (errno.EPIPE, errno.ECONNRESET)


class Output(io.RawIOBase):
    """A descriptor that takes every write. After the first that fails, the rest is dropped."""

    def __init__(self, descriptor: int, *, is_closed: bool = False) -> None:
        self._descriptor = descriptor
        self._is_closed = is_closed
        self._error: OSError | None = None

    @property
    def failure(self) -> OSError | None:
        """The reason why output is missing; None if all was written, or its reader has left of its own accord."""
        return None if self._error is None or self._error.errno in _READER_IS_GONE else self._error

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        if self._error is None:
            try:
                return self._written(data)
            except OSError as error:
                self._error = error
        return memoryview(data).nbytes

    def _written(self, data: ReadableBuffer) -> int:
        if self._is_closed:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # another program has made the pipe that it shares with us non-blocking
                select.select([], [self._descriptor], [])


def open_standard_descriptors() -> frozenset[int]:
    """Open those of the three standard descriptors that are closed (``>&-``), because the next file that this process opens
    would become its stdout. Return them."""
    closed = set()
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            closed.add(descriptor)
            os.dup2(os.open(os.devnull, os.O_RDWR), descriptor)  # the lowest free number: itself
    return frozenset(closed)


@contextlib.contextmanager
def guarded(closed: frozenset[int]) -> Iterator[Output]:
    """Make stdout and stderr streams that cannot fail within the block; yield stdout's. A stream that is not the process's
    own, as under a test, stays. ``closed`` are the descriptors that the caller of this process had closed."""
    kept = sys.stdout, sys.stderr
    output = Output(STDOUT, is_closed=STDOUT in closed)
    errors = Output(STDERR, is_closed=STDERR in closed)
    if _is_own(sys.stdout, STDOUT):
        sys.stdout = _text_stream(output, is_interactive=output.isatty())
    if _is_own(sys.stderr, STDERR):
        sys.stderr = _text_stream(errors, is_interactive=True)
    try:
        yield output
    finally:
        flush()
        sys.stdout, sys.stderr = kept


def flush() -> None:
    """Write buffered output."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


def _is_own(stream: IO[str] | None, descriptor: int) -> bool:
    """Return True if a stream is the process's own. Python leaves None for a descriptor that was closed."""
    if stream is None:
        return True
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError):
        return False


def _text_stream(raw: Output, *, is_interactive: bool) -> io.TextIOWrapper:
    own = sys.__stdout__ if raw.fileno() == STDOUT else sys.__stderr__
    encoding = own.encoding if own is not None else "utf-8"
    buffered = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffered, encoding, errors="backslashreplace", line_buffering=is_interactive)
