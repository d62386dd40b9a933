"""Signals that end a command: Ctrl-C, a CI system that cancels (SIGTERM), a terminal that closes (SIGHUP).

The first one unwinds the command: what was measured is stored, and every process that it started is ended. Those after it
must not cut that short.
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_AGAIN = b"dsregress: ending: what was measured is being stored, and the processes of this run are being stopped\n"


class Interrupted(KeyboardInterrupt):
    """A signal has ended the command; ``number`` says which."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__()


class Handler:
    """Raises `Interrupted` for the first signal; for later ones, prints that the command is ending."""

    def __init__(self) -> None:
        self._first: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self._first is None:
            self._first = number
            raise Interrupted(number)
        with contextlib.suppress(OSError):  # sys.stderr may be in the middle of a write
            os.write(2, _AGAIN)


def catch() -> None:
    """From now on, the first signal raises `Interrupted` in the main thread. One that the caller of this process ignores,
    as ``nohup`` does, stays ignored."""
    handler = Handler()
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def ignore() -> None:
    """From now on, no signal changes the exit code: the command has ended. Not for a default action to be restored while
    the interpreter shuts down, as Python does with handlers of its own."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
