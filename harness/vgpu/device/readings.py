"""A program's readings of its card's memory: each line that DeepSpeed's ``see_memory_usage`` prints, and each call of
``torch.cuda.memory_allocated`` and its kin. Published GPU figures were read at such points."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, Protocol

from vgpu.figures import MemoryReading
from vgpu.replacing import Patches
from vgpu.sim.errors import caller, location

#: Further readings of one rank are dropped.
_MOST_READINGS = 1000


class Figures(Protocol):
    """The figures of `vgpu.device.books.Books`."""

    def allocated(self) -> int: ...

    def max_allocated(self) -> int: ...

    def reserved(self) -> int: ...

    def late_reserved(self) -> int: ...

    def max_reserved(self) -> int: ...


class Readings:
    """The readings of one rank, in order."""

    def __init__(self, card: Figures) -> None:
        self.taken: list[MemoryReading] = []
        self.step = 0  #: optimizer steps so far
        self._card = card
        self._printing = False  #: inside ``see_memory_usage``, whose own calls are part of it

    def called(self) -> None:
        """Record a reading: the program is about to get a figure."""
        if not self._printing:
            self._take(location(_beyond_accelerators(caller())))

    def _take(self, at: str) -> None:
        if len(self.taken) == _MOST_READINGS:
            return
        self.taken.append(
            MemoryReading(
                at=at,
                step=self.step,
                allocated_bytes=self._card.allocated(),
                allocated_peak_bytes=self._card.max_allocated(),
                reserved_bytes=self._card.reserved(),
                reserved_peak_bytes=self._card.max_reserved(),
                late_reserved_bytes=self._card.late_reserved(),
            )
        )

    def printed(self, original: Any) -> Any:
        """Return DeepSpeed's ``see_memory_usage(message, force=False)`` with a reading of what it prints: after its own
        garbage collection, before it resets the peaks."""

        @functools.wraps(original)
        def see_memory_usage(message: object, force: bool = False, *args: object, **kwargs: object) -> Any:
            if force:
                gc.collect()
                self._take(str(message))
            self._printing = True
            try:
                return original(message, force, *args, **kwargs)
            finally:
                self._printing = False

        return see_memory_usage


@contextlib.contextmanager
def of_deepspeed(readings: Readings) -> Iterator[None]:
    """Record what the imported DeepSpeed prints of its memory within the block."""
    original = getattr(sys.modules.get("deepspeed.runtime.utils"), "see_memory_usage", None)
    if original is None:
        yield
        return
    with Patches("memory that DeepSpeed prints is noted") as patches:
        patches.everywhere(original, readings.printed(original), "see_memory_usage")
        yield


def _beyond_accelerators(frame: FrameType | None) -> FrameType | None:
    """Return the first frame outside DeepSpeed's accelerators, which only pass a call on."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("deepspeed.accelerator."):
        frame = frame.f_back
    return frame
