"""The figures of a step by phase, as a meter counts them. Standard library only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Protocol

from vgpu.figures import PhaseReading

#: Entered by name around each phase of a step.
Phase = Callable[[str], AbstractContextManager[None]]


class PhaseMeter(Protocol):
    """Counts memory, operations and communication of the process that enters it."""

    def __enter__(self) -> PhaseMeter: ...

    def __exit__(self, *exc: object) -> bool | None: ...

    def begin(self) -> None:
        """Begin a phase: its peaks start from what is held now, its counts from zero."""

    def end(self) -> PhaseReading:
        """End the phase, and return its peaks, what is still held, and its counts."""


class MeteredPhases:
    """Memory, operations and communication by phase; with ``clocked``, also the duration of each phase in seconds.
    ``each`` is called with every single reading. A phase that raises ends for the meter as well, and has no reading."""

    def __init__(
        self, meter: PhaseMeter, *, clocked: bool = False, each: Callable[[str, PhaseReading], None] | None = None
    ) -> None:
        self.meter = meter
        self.clocked = clocked
        self._each = each
        self.readings: dict[str, PhaseReading] = {}
        self._cards: dict[str, int] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self.meter.begin()
        start = time.perf_counter()
        try:
            yield
        except BaseException:  # a phase that is left in any way ends for the meter too
            with suppress(Exception):  # the meter fails, too, on a card that is lost: that must not hide the cause
                self.meter.end()
            raise
        reading = self.meter.end()
        if self.clocked:
            reading.seconds = time.perf_counter() - start
        if reading.smallest_card_bytes is not None:
            self._cards[name] = max(self._cards.get(name, 0), reading.smallest_card_bytes)
            reading.smallest_card_bytes = self._cards[name]
        if self._each is not None:
            self._each(name, reading)
        self.readings[name] = self.readings[name].folded_with(reading) if name in self.readings else reading
