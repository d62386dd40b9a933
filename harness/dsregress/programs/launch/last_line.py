"""The last line that a program wrote before it exited: argparse, and programs themselves, print their reason there."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


class LastLine:
    """A stream that passes everything on and keeps the last line that is not blank."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.line = ""

    def write(self, text: str) -> int:
        """Write text to the stream, and keep its last line that is not blank."""
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            self.line = lines[-1]
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def keep_last_line() -> Iterator[LastLine]:
    """Keep the last line that the program writes to ``sys.stderr`` within the block."""
    before = sys.stderr
    last = LastLine(before)
    sys.stderr = last  # type: ignore[assignment]  # a text stream in all but its class
    try:
        yield last
    finally:
        if sys.stderr is last:
            sys.stderr = before
