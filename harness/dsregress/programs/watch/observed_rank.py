"""One rank while its program is watched: who counts, who is told, and who looks on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dsregress.probe.framework import Meter
from dsregress.probe.holders.sites import SiteObserver
from vgpu.device.readings import Readings


@dataclass(frozen=True, kw_only=True)
class ObservedRank:
    """A rank, its meter, and its callbacks: ``announce`` takes each stage that begins, and ``measured`` is called once
    everything untimed is measured. If the program then runs on, ``keep`` is called first, to keep what is measured.
    ``goes_on`` says whether the program has read what an earlier run has left to it, None if it has left nothing.
    ``observer`` is that of a cell that is explained, ``readings`` are those of a virtual GPU."""

    number: int
    meter: Meter
    is_simulated: bool
    announce: Callable[[str], None]
    measured: Callable[[], None]
    keep: Callable[[], None] = lambda: None
    goes_on: Callable[[], bool | None] = lambda: None
    observer: SiteObserver | None = None
    readings: Readings | None = None
