"""Needs of a cell with some remedies, and the room that it makes compared with another. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from dsregress.model import Outcome

#: A share of the unmodified peak. A smaller gain is reported, but does not count as help.
MATTERS = 0.01


class PhaseFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One phase: the worst rank's figure of each kind."""

    device_peak_bytes: int
    device_retained_bytes: int
    host_peak_bytes: int
    host_retained_bytes: int
    flops: int
    communicated_bytes: int  #: messages of the collectives, in the convention of `vgpu.meters.operators`
    seconds: float | None  #: measured; None in ``sim``


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: the unmodified case, one remedy, or several together."""

    remedies: tuple[str, ...]  #: by name; empty for the unmodified case
    changes: dict[str, Any]  #: of parameters
    versions: dict[str, str]  #: of packages
    stack: str
    cell: str
    outcome: Outcome
    phases: dict[str, PhaseFigures]  #: empty if it did not run to its end
    peak_bytes: int | None  #: of the worst phase
    peak_phase: str
    counted: str  #: ``reserved`` if an allocator exists or is modelled, else ``allocated``
    step_s: float | None  #: median of the timed rounds; None in ``sim``
    least_step_s: float | None  #: a model: see `dsregress.advice.gpus.step_time`; None if it says nothing
    available_bytes: int | None  #: on the card; None without one
    taken_bytes: int  #: of the card, by what else runs on it
    fails_in: str  #: the first phase that the card has no room for
    verdict: str  #: in words; empty without a card or a peak
    dtype_note: str  #: why the card cannot compute in the case's dtype; empty if it can
    not_of_the_step: tuple[str, ...] = ("init",)  #: phases that the measured step did not have

    @property
    def headroom_bytes(self) -> int | None:
        """Return the room that is left on the card, negative if the case does not fit; None without a card or a peak."""
        if self.peak_bytes is None or self.available_bytes is None:
            return None
        return self.available_bytes - self.peak_bytes

    @property
    def fits(self) -> bool | None:
        """Return True if every phase fits the card; None without a card or a peak."""
        return None if self.headroom_bytes is None else not self.fails_in

    @property
    def flops(self) -> int:
        """Return the floating-point operations of one rank's step."""
        return sum(phase.flops for name, phase in self.phases.items() if name not in self.not_of_the_step)

    @property
    def communicated_bytes(self) -> int:
        """Return the bytes of collectives' messages of one rank's step."""
        return sum(phase.communicated_bytes for name, phase in self.phases.items() if name not in self.not_of_the_step)

    @property
    def host_peak_bytes(self) -> int | None:
        """Return one rank's peak on the host, over all phases; None if no phase was measured."""
        return max((phase.host_peak_bytes for phase in self.phases.values()), default=None)

    @property
    def name(self) -> str:
        """Return the names of the remedies, joined by plus signs; ``unmodified`` without any."""
        return " + ".join(self.remedies) or "unmodified"


def saved_bytes(base: Case, case: Case) -> int | None:
    """Return how much lower the peak of ``case`` is than that of ``base``; None if either has none."""
    if base.peak_bytes is None or case.peak_bytes is None:
        return None
    return base.peak_bytes - case.peak_bytes


def gained_bytes(base: Case, case: Case) -> int | None:
    """Return how much more room the card has with ``case``, by a lower peak or because more of the card is left to the job;
    None if either has no peak."""
    if base.peak_bytes is None or case.peak_bytes is None:
        return None
    return shortage_bytes(base) - shortage_bytes(case)


def shortage_bytes(case: Case) -> int:
    """Return how many bytes the card lacks, negative if it has room to spare; without a card, the peak."""
    return (case.peak_bytes or 0) - (case.available_bytes or 0)


def makes_room(before: Case, case: Case, of: Case | None = None) -> bool:
    """Return True if a case makes room that matters (`MATTERS`), as a share of the peak of ``of`` (default: ``before``). A
    case that has a peak always makes room if ``before`` has none."""
    if case.peak_bytes is None:
        return False
    gained = gained_bytes(before, case)
    return gained is None or gained >= MATTERS * ((of or before).peak_bytes or 0) > 0
