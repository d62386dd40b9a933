"""The phases of a program whose cell is explained."""

from __future__ import annotations

from dsregress.probe.holders.sites import SiteObserver
from vgpu.watching.metered_phases import MeteredPhases, Phase


def watched_phase(metered: MeteredPhases, observer: SiteObserver | None) -> Phase:
    """Return the metered phases, with the observer of a cell that is explained."""
    if observer is None:
        return metered
    return lambda name: observer.phase(name, metered)
