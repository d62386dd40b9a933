"""Counts of all that lives after each step of a program that runs on: what stays from step to step piles up."""

from __future__ import annotations

import gc
import resource
from contextlib import ExitStack
from pathlib import Path

from vgpu.watching.metered_phases import PhaseMeter

#: Of a process: pages, of which the second number is in memory and the third of those is shared with files.
_PAGES = Path("/proc/self/statm")


class LastingMemory:
    """Counts Python objects, bytes of tensors and of memory of the process's own. Objects that were frozen before, which
    stay whatever a step does, are left out, and so are tensors that were made before."""

    def __init__(self, meter: PhaseMeter) -> None:
        self.objects: list[int] = []
        self.tensor_bytes: list[int] = []
        self.resident_bytes: list[int] = []
        self._meter = meter
        self._metering = ExitStack()
        self._is_metered = False

    def begin(self, *, metered: bool) -> None:
        """Begin before a step. Tensors are counted only if ``metered``, because that slows every operator down."""
        self._is_metered = metered
        if metered:
            self._metering.enter_context(self._meter)
            self._meter.begin()

    def count(self) -> None:
        """Count what is alive, without what a collection frees."""
        gc.collect()
        self.objects.append(len(gc.get_objects()))
        if self._is_metered:
            held = self._meter.end()
            self.tensor_bytes.append(held.device_retained_bytes + held.host_retained_bytes)
            self._meter.begin()
        self.resident_bytes.append(_own_bytes())

    def end(self) -> None:
        """Stop counting."""
        self._is_metered = False
        self._metering.close()


def _own_bytes() -> int:
    """Return the bytes of the process in memory that no file backs. Code that is read late is no growth."""
    _, resident, shared, *_ = map(int, _PAGES.read_text().split())
    return (resident - shared) * resource.getpagesize()
