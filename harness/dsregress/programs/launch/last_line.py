"""The last line that a program wrote before it exited: argparse, and programs themselves, print their reason there."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


class LastLine:
    """The last line of several streams that is not blank."""

    line = ""


class _KeepingStream:
    """A stream that passes everything on and keeps its last line that is not blank."""

    def __init__(self, stream: Any, last: LastLine) -> None:
        self._stream = stream
        self._last = last

    def write(self, text: str) -> int:
        """Write text to the stream, and keep its last line that is not blank."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            self._last.line = lines[-1]
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def keep_last_line() -> Iterator[LastLine]:
    """Keep the last line that the program writes to ``sys.stderr`` or ``sys.stdout`` within the block."""
    last = LastLine()
    before = sys.stderr, sys.stdout
    kept = _KeepingStream(sys.stderr, last), _KeepingStream(sys.stdout, last)
    sys.stderr, sys.stdout = kept  # type: ignore[assignment]  # text streams in all but their class
    try:
        yield last
    finally:
        if sys.stderr is kept[0]:
            sys.stderr = before[0]
        if sys.stdout is kept[1]:
            sys.stdout = before[1]
