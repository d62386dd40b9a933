"""What a program wrote last before it exited: argparse, and programs themselves, print there why."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


class LastWords:
    """A stream that passes everything on, and keeps the last line that says something."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.line = ""

    def write(self, text: str) -> int:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if lines:
            self.line = lines[-1]
        return int(self._stream.write(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def kept() -> Iterator[LastWords]:
    """Within, of what the program writes to ``sys.stderr``."""
    before = sys.stderr
    words = LastWords(before)
    sys.stderr = words  # type: ignore[assignment]  # a text stream in all but its class
    try:
        yield words
    finally:
        if sys.stderr is words:
            sys.stderr = before
