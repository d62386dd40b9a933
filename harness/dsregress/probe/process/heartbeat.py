"""Signs of life from a rank to the cell's process: that a stage begins, and that operators run in it.

A rank that waits for another one runs no operator, so silence still means a hang, while a generation of a thousand
tokens is not silent. Computation without torch, such as a tokenizer's, is (see `silent_work`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from dsregress.probe.process.channel import Message

#: Seconds between two signs of life within a stage. Far below any limit on silence, and too rare to cost anything.
EVERY_S = 1.0


class Heartbeat:
    """Passes messages to ``send``. `operator_ran` is a meter's ``working``."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._due = 0.0
        self._process = os.getpid()

    def stage(self, stage: str) -> None:
        """Report that a stage begins."""
        self._send({"at": "stage", "stage": stage})
        self._due = time.monotonic() + EVERY_S

    def operator_ran(self) -> None:
        """Report at most every `EVERY_S` that an operator ran in this process."""
        if time.monotonic() >= self._due and os.getpid() == self._process:  # a loader's worker is no sign of its rank's
            self._send({"at": "working"})
            self._due = time.monotonic() + EVERY_S
