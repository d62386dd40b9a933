"""Signals that end a command: Ctrl-C, a CI system that cancels (SIGTERM), a terminal that closes (SIGHUP).

The first one unwinds the command: measurements are stored, and every process that it started is ended. Later ones must not
cut that short.
"""

from __future__ import annotations

import contextlib
import os
import signal
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_AGAIN = b"dsregress: ending: what was measured is being stored, and the processes of this run are being stopped\n"


class Interrupted(KeyboardInterrupt):
    """A signal has ended the command; ``number`` is the signal's."""

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
    """Raise `Interrupted` in the main thread for the first signal from now on. A signal that the caller of this process
    ignores, as ``nohup`` does, stays ignored."""
    handler = Handler()
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def ignore() -> None:
    """Ignore signals from now on, so that none changes the exit code of a command that has ended. Default actions are not
    restored: Python would do so for its own handlers while the interpreter shuts down."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
