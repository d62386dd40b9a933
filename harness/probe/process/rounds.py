"""The timed rounds of one rank: when the next one begins.

A virtual machine shares its cores with others: next to a busy neighbour the same instructions take up to twice as long, for
tenths of a second or for seconds, and no counter of the kernel shows it. Rounds that begin on such a core scatter twice as
much as others. What shows it is a computation that never changes: the host has every rank wait until that takes no longer
than usual, before a round whose ranks all run here.
"""

from __future__ import annotations

import math
from time import perf_counter, sleep

from harness.probe.process.channel import Channel

#: A core is slowed where the computation takes so many times as long as it ever did. On one that is not it takes up to 1.3
#: times as long, after a step that left other things in the caches.
_SLOWED = 1.45

#: What is added up: 2 ms, which the first microseconds after a wait do not decide.
_ADDENDS = range(60_000)

#: At most so long before one round; and never longer in all than rounds took, where cores are slowed all the time.
_LONGEST_S = 1.0
_BETWEEN_LOOKS_S = 0.01


class Rounds:
    """Of one rank, by its end of the channel to the cell's process."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._fastest_s = math.inf
        self._may_wait_s = 0.0

    def next(self) -> bool:
        """Waits until the host wants one; False where it wants no more."""
        command = self._channel.receive()
        if command is not None and command["do"] == "settle":
            self._settle()
            self._channel.send({"at": "settled"})
            command = self._channel.receive()
        return command is not None and command["do"] == "round"

    def ended(self, seconds: float) -> None:
        """A round has taken so long."""
        self._may_wait_s += seconds

    def _settle(self) -> None:
        began = perf_counter()
        until = began + min(self._may_wait_s, _LONGEST_S)
        while self._is_slowed() and perf_counter() < until:
            sleep(_BETWEEN_LOOKS_S)
        self._may_wait_s = max(0.0, self._may_wait_s - (perf_counter() - began))

    def _is_slowed(self) -> bool:
        began = perf_counter()
        total = 0
        for addend in _ADDENDS:
            total += addend
        took_s = perf_counter() - began
        self._fastest_s = min(self._fastest_s, took_s)
        return took_s > _SLOWED * self._fastest_s
