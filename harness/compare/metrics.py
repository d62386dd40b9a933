"""Every metric there is, in one table: its name, unit, direction, and from which size on a difference matters.

Ranks are never summed: a reading is that of the worst rank, with the skew (largest minus smallest) beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from enum import Enum
from operator import attrgetter
from typing import Any

import msgspec

from harness.compare.thresholds import Thresholds
from harness.probe.wire import PHASES, PhaseReading, RankRecord, RunRecord

__all__ = ["BY_NAME", "METRICS", "PHASES", "Direction", "Metric", "Reading", "collectives_by_kind", "fingerprint"]


class Direction(Enum):
    """What a larger value means."""

    LOWER_IS_BETTER = "lower is better"
    AT_MOST_ONE = "above 1 is wrong"
    NEUTRAL = "a difference is told, not judged"


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One named quantity."""

    name: str
    title: str  #: for people; a phase is put before it where there is one
    unit: str  #: bytes, calls, operations, launches, collectives, s, tolerances, or empty
    direction: Direction
    family: str  #: findings of one family on one cell move together: the most telling is the headline
    fails: str = ""  #: the word of ``--fail-on`` that a regression of it answers to; empty: never fails
    per_phase: bool = False
    exact: bool = True  #: the same cell gives the same value every time
    floor: str = ""  #: fields of Thresholds: the absolute size ...
    share: str = ""  #: ... and the fraction of the baseline's value, from which on a difference matters

    def relevant(self, value: float, baseline: float, thresholds: Thresholds) -> bool:
        """Whether the difference matters. Both limits must be reached; a baseline of 0 has no share."""
        difference = abs(value - baseline)
        floor: float = getattr(thresholds, self.floor)
        share: float = getattr(thresholds, self.share)
        return difference > 0 and difference >= floor and difference >= share * abs(baseline)


def _memory(name: str, title: str) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit="bytes",
        direction=Direction.LOWER_IS_BETTER,
        family="memory",
        fails="memory",
        per_phase=True,
        floor="memory_bytes",
        share="memory_share",
    )


def _work(name: str, title: str, unit: str, family: str) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit=unit,
        direction=Direction.LOWER_IS_BETTER,
        family=family,
        fails="time",
        per_phase=True,
        floor=name,
        share=f"{name}_share",
    )


def _error(name: str, title: str) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit="tolerances",
        direction=Direction.AT_MOST_ONE,
        family="numerics",
        fails="numerics",
    )


def _told(name: str, title: str, unit: str = "", *, exact: bool = True, family: str = "") -> Metric:
    return Metric(
        name=name, title=title, unit=unit, direction=Direction.NEUTRAL, family=family or name, exact=exact
    )


METRICS = (
    _memory("device_peak_bytes", "peak of device memory"),
    _memory("device_retained_bytes", "device memory held after it ends"),
    _memory("host_peak_bytes", "peak of host memory"),
    _memory("host_retained_bytes", "host memory held after it ends"),
    _memory("reserved_peak_bytes", "peak of reserved device memory"),
    _work("host_calls", "Python and C calls", "calls", "host work"),
    _work("op_launches", "operations launched", "launches", "host work"),
    _work("flops", "floating-point operations", "operations", "compute"),
    _work("collective_count", "collectives", "collectives", "communication"),
    _work("collective_bytes", "bytes in collectives", "bytes", "communication"),
    Metric(
        name="step_time_s",
        title="step time",
        unit="s",
        direction=Direction.LOWER_IS_BETTER,
        family="step time",
        fails="time",
        exact=False,
        floor="time_s",
        share="time_share",
    ),
    _told("init_s", "time of init", "s", exact=False),
    _told("import_s", "time of import", "s", exact=False),
    _error("loss_error", "distance of the loss from plain PyTorch"),
    _error("gradient_norm_error", "distance of the gradient norm from plain PyTorch"),
    _error("parameter_error", "distance of the updated parameters from plain PyTorch"),
    _told("configuration", "effective configuration"),
    _told("warnings", "warnings"),
    Metric(name="outcome", title="outcome", unit="", direction=Direction.NEUTRAL, family="outcome", fails="crash"),
)

BY_NAME = {metric.name: metric for metric in METRICS}

#: The per-phase metrics, in the order of ``READERS``.
PHASE_METRICS = tuple(metric for metric in METRICS if metric.per_phase)

_PLAIN_FIELDS = tuple(m.name for m in PHASE_METRICS if not m.name.startswith("collective_"))
_COLUMNS = (*_PLAIN_FIELDS, "collectives")
_read_exact = attrgetter(*_COLUMNS)


class Reading(msgspec.Struct, frozen=True):
    """One metric of one run: the worst rank's value."""

    value: float
    rank: int
    skew: float  #: largest minus smallest over the ranks
    by_rank: tuple[tuple[int, float], ...]


#: (rank, phase, the exact values in the order of ``_PLAIN_FIELDS``, collectives last)
Fingerprint = list[tuple[int, str, tuple[Any, ...]]]


def fingerprint(record: RunRecord) -> Fingerprint:
    """All exact values of a run. Equal fingerprints mean equal measurements, found without reading them one by one."""
    return [
        (rank.rank, phase, _read_exact(reading)) for rank in record.ranks for phase, reading in rank.phases.items()
    ]


def differing(mine: Fingerprint, base: Fingerprint) -> list[tuple[str, str]]:
    """``(phase, metric)`` of all that any rank measured differently."""
    columns: dict[tuple[str, str], None] = {}
    others = {(rank, phase): values for rank, phase, values in base}
    for rank, phase, values in mine:
        theirs = others.get((rank, phase))
        if theirs is None or values == theirs:
            continue
        for name, value, other in zip(_COLUMNS, values, theirs, strict=True):
            if value != other:
                columns[phase, name] = None
    return [
        (phase, name)
        for phase, column in columns
        for name in (("collective_count", "collective_bytes") if column == "collectives" else (column,))
    ]


def read(record: RunRecord, metric: str, phase: str) -> Reading | None:
    """A per-phase metric of a run; None where it was not measured."""
    values = []
    for rank in record.ranks:
        if phase in rank.phases and (value := _value(rank.phases[phase], metric)) is not None:
            values.append((value, -rank.rank))
    if not values:
        return None
    worst, smallest = max(values), min(values)
    by_rank = tuple((-rank, value) for value, rank in values)
    return Reading(worst[0], -worst[1], worst[0] - smallest[0], by_rank)


def worst_values(record: RunRecord) -> dict[tuple[str, str], float]:
    """``(phase, metric) -> value`` of the worst rank, for every per-phase metric that was measured."""
    worst: dict[tuple[str, str], float] = {}
    for rank in record.ranks:
        for phase, reading in rank.phases.items():
            for name, value in zip(_PLAIN_FIELDS, _read_exact(reading), strict=False):
                if value is not None and value > worst.get((phase, name), -1):
                    worst[phase, name] = value
            for name in ("collective_count", "collective_bytes"):
                total = _value(reading, name) or 0
                if total > worst.get((phase, name), -1):
                    worst[phase, name] = total
    return worst


def collectives_by_kind(record: RunRecord, phase: str, rank: int) -> dict[str, list[int]]:
    """``kind -> [count, bytes]`` of one rank."""
    for entry in record.ranks:
        if entry.rank == rank and phase in entry.phases:
            return entry.phases[phase].collectives
    return {}


def step_time_s(record: RunRecord) -> float | None:
    """Median of the timed rounds; None where nothing was timed."""
    return statistics.median(record.round_s) if record.round_s else None


def init_s(record: RunRecord) -> float | None:
    """Of the slowest rank."""
    return max((rank.init_s for rank in record.ranks), default=None)


def numerics(record: RunRecord) -> Iterator[tuple[RankRecord, str, float]]:
    """The oracle's distances that were measured, rank by rank, as ``(rank, metric, distance)``."""
    for rank in record.ranks:
        if rank.numerics is not None:
            for name in ("loss_error", "gradient_norm_error", "parameter_error"):
                distance = getattr(rank.numerics, name)
                if distance is not None:
                    yield rank, name, distance


def flat(record: RunRecord) -> dict[str, float]:
    """Every metric of a run under its flat name: ``backward.device_peak_bytes``, ``step_time_s``, ..."""
    values: dict[str, float] = {f"{phase}.{name}": value for (phase, name), value in worst_values(record).items()}
    if (median := step_time_s(record)) is not None:
        values["step_time_s"] = median
    if (slowest := init_s(record)) is not None:
        values["init_s"] = slowest
    values["import_s"] = record.import_s
    for _, name, distance in numerics(record):
        values[name] = max(distance, values.get(name, distance))
    return values


def _value(reading: PhaseReading, metric: str) -> float | None:
    if metric == "collective_count":
        return sum(pair[0] for pair in reading.collectives.values())
    if metric == "collective_bytes":
        return sum(pair[1] for pair in reading.collectives.values())
    value: float | None = getattr(reading, metric)
    return value
