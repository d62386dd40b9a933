"""Values of the metrics, read from a run's record.

Ranks are never summed: a metric's value is that of the worst rank, reported with the skew (largest minus smallest).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dsregress.compare.metrics import DEVICE_EXCESS, DEVICE_RETAINED, PHASE_METRICS, Metric
from dsregress.probe.border.wire import PHASES, RunRecord
from vgpu.figures import PhaseReading

_READERS: tuple[Callable[[PhaseReading], float | None], ...] = tuple(
    m.read for m in PHASE_METRICS if m.read is not None
)
_COLUMN = {metric.name: at for at, metric in enumerate(PHASE_METRICS)}

#: The terms of an ideal are kept from this excess on, as a share of the ideal: below it no report lists them.
_TERMS_KEPT_FROM = 0.005


class RankPhase(msgspec.Struct, frozen=True):
    """All exact values of one rank in one phase."""

    rank: int
    phase: str
    values: tuple[int | float | None, ...]  #: in the order of ``PHASE_METRICS``; a count stays an int
    collectives: tuple[tuple[str, int, int], ...]  #: kind, count, bytes; sorted by kind
    attention: tuple[tuple[str, int], ...] = ()  #: kernel and reason, calls; sorted


Exact = tuple[RankPhase, ...]


class WorstRank(msgspec.Struct, frozen=True):
    """One metric of one run: the worst rank's value."""

    value: float
    rank: int
    skew: float  #: largest minus smallest over the ranks
    by_rank: tuple[tuple[int, float], ...]


def exact_values(record: RunRecord) -> Exact:
    """Return all exact values of a run. If they are equal, so are the measurements, and none need be read."""
    return tuple(
        RankPhase(
            rank.rank,
            phase,
            tuple([read(reading) for read in _READERS]),
            tuple([(kind, count, nbytes) for kind, (count, nbytes) in sorted(reading.collectives.items())]),
            tuple(sorted(reading.attention.items())),
        )
        for rank in record.ranks
        for phase, reading in rank.phases.items()
    )


def differing(mine: Exact, base: Exact) -> list[tuple[str, Metric]]:
    """Return phase and metric of each value that any rank measured differently."""
    found: dict[tuple[str, str], Metric] = {}
    others = {(row.rank, row.phase): row.values for row in base}
    for row in mine:
        theirs = others.get((row.rank, row.phase))
        if theirs is None or row.values == theirs:
            continue
        for metric, value, other in zip(PHASE_METRICS, row.values, theirs, strict=True):
            if value != other:
                found[row.phase, metric.name] = metric
    return [(phase, metric) for (phase, _), metric in found.items()]


def worst_rank(exact: Exact, metric: Metric, phase: str) -> WorstRank | None:
    """Return the worst rank's value of a per-phase metric; None if it was not measured."""
    column = _COLUMN[metric.name]
    values = [(value, -row.rank) for row in exact if row.phase == phase and (value := row.values[column]) is not None]
    if not values:
        return None
    worst, smallest = max(values), min(values)
    return WorstRank(
        worst[0], -worst[1], worst[0] - smallest[0], tuple((-negative, value) for value, negative in values)
    )


def largest_phase(exact: Exact, metric: Metric) -> str:
    """Return the phase in which a metric is largest, of any rank; empty if it was not measured."""
    column = _COLUMN[metric.name]
    values = [(value, row.phase) for row in exact if (value := row.values[column]) is not None]
    return max(values, key=lambda pair: pair[0])[1] if values else ""


def worst_values(exact: Exact) -> dict[str, float]:
    """Return ``backward.device_peak_bytes`` -> value of the worst rank, for every exact metric that was measured."""
    worst: dict[str, float] = {}
    for row in exact:
        for metric, value in zip(PHASE_METRICS, row.values, strict=True):
            if value is not None and value > worst.get(name := metric.flat_name(row.phase), -1):
                worst[name] = value
    return worst


def collectives_by_kind(exact: Exact, phase: str, rank: int) -> dict[str, list[int]]:
    """Return ``kind -> [count, bytes]`` of one rank."""
    for row in exact:
        if row.rank == rank and row.phase == phase:
            return {kind: [count, nbytes] for kind, count, nbytes in row.collectives}
    return {}


def attention_by_kernel(exact: Exact, phase: str, rank: int) -> dict[str, int]:
    """Return the calls of one rank by kernel, with the reason where it is not flash attention."""
    for row in exact:
        if row.rank == rank and row.phase == phase:
            return dict(row.attention)
    return {}


class Excess(msgspec.Struct, frozen=True):
    """Bytes that one phase leaves on the device of the rank that is furthest beyond its ideal
    (`dsregress.probe.oracles.ideal`)."""

    phase: str
    rank: int
    held: int  #: bytes on the device after the phase
    ideal: int  #: bytes that it may hold at most
    terms: tuple[tuple[str, int], ...] = ()  #: the terms of the ideal, the largest first, if there is an excess

    @property
    def size(self) -> int:
        """Bytes beyond the ideal; negative where the release holds less than it may."""
        return self.held - self.ideal


def excesses(record: RunRecord) -> tuple[Excess, ...]:
    """Return the worst rank's excess of each phase. Empty if the probe computed no ideal."""
    found: dict[str, Excess] = {}
    for rank in record.ranks:
        if not rank.ideal:
            continue
        for phase in DEVICE_EXCESS.phases:
            terms = rank.ideal.get(DEVICE_RETAINED.flat_name(phase))
            if not terms or phase not in rank.phases:
                continue
            held, ideal = rank.phases[phase].device_retained_bytes, sum(terms.values())
            if phase in found and found[phase].size >= held - ideal:
                continue
            kept = sorted(terms.items(), key=lambda term: -term[1]) if held > (1 + _TERMS_KEPT_FROM) * ideal else ()
            found[phase] = Excess(phase, rank.rank, held, ideal, tuple(kept))
    return tuple(found[phase] for phase in PHASES if phase in found)
