"""How much more than its ideal a run holds. `harness.probe.oracles.ideal` has the ideal, `ideal_memory` the verdict."""

from __future__ import annotations

import msgspec

from harness.compare.brief import Brief
from harness.probe.border.wire import PHASES

METRIC = "device_excess_bytes"

#: Phases whose retained memory is judged.
JUDGED = ("init", "backward", "step")


#: Below this share of the ideal nobody asks what it is made of, and a comparison of 100,000 results need not keep it.
_EXPLAINED_FROM = 0.005


class Excess(msgspec.Struct, frozen=True):
    """One phase of the rank that holds most beyond its ideal."""

    phase: str
    rank: int
    held: int  #: bytes on the device after the phase
    ideal: int  #: bytes that it may hold at most
    terms: tuple[tuple[str, int], ...] = ()  #: what the ideal is made of, largest first, where there is an excess

    @property
    def size(self) -> int:
        """Bytes beyond the ideal; negative where the release holds less than it may."""
        return self.held - self.ideal


def excesses(record: Brief) -> tuple[Excess, ...]:
    """By phase, the worst rank's. Empty where the probe could not tell an ideal."""
    found: dict[str, Excess] = {}
    for rank in record.ranks:
        if not rank.ideal:
            continue
        for phase in JUDGED:
            terms = rank.ideal.get(f"{phase}.device_retained_bytes")
            if not terms or phase not in rank.phases:
                continue
            held, ideal = rank.phases[phase].device_retained_bytes, sum(terms.values())
            if phase in found and found[phase].size >= held - ideal:
                continue
            told = sorted(terms.items(), key=lambda term: -term[1]) if held > (1 + _EXPLAINED_FROM) * ideal else ()
            found[phase] = Excess(phase, rank.rank, held, ideal, tuple(told))
    return tuple(found[phase] for phase in PHASES if phase in found)
