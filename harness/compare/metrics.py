"""Every metric there is, in one table: its name, unit, direction, and from which size on a difference matters.

Ranks are never summed: a reading is that of the worst rank, with the skew (largest minus smallest) beside it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import Enum
from operator import attrgetter
from typing import Any

import msgspec

from harness.compare.brief import Brief, brief
from harness.config.thresholds import Thresholds
from harness.probe.border.wire import RunRecord


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
    return Metric(name=name, title=title, unit=unit, direction=Direction.NEUTRAL, family=family or name, exact=exact)


METRICS = (
    _memory("device_peak_bytes", "peak of device memory"),
    _memory("device_retained_bytes", "device memory held after it ends"),
    _memory("host_peak_bytes", "peak of host memory"),
    _memory("host_retained_bytes", "host memory held after it ends"),
    _memory("reserved_peak_bytes", "peak of reserved device memory"),
    _memory("smallest_card_bytes", "smallest card that it gets through on"),
    Metric(
        name="device_excess_bytes",
        title="device memory held beyond what ZeRO needs",
        unit="bytes",
        direction=Direction.LOWER_IS_BETTER,
        family="memory oracle",
        fails="memory",
    ),
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
_PLACE = {name: at for at, name in enumerate(_COLUMNS)}
_COLLECTIVES = _PLACE["collectives"]
_METRIC_NAMES = (*_PLAIN_FIELDS, "collective_count", "collective_bytes")
_values_of = attrgetter(*_COLUMNS)

#: (rank, phase, values in the order of ``_COLUMNS``)
Exact = list[tuple[int, str, tuple[Any, ...]]]


class Reading(msgspec.Struct, frozen=True):
    """One metric of one run: the worst rank's value."""

    value: float
    rank: int
    skew: float  #: largest minus smallest over the ranks
    by_rank: tuple[tuple[int, float], ...]


def exact_values(record: Brief | RunRecord) -> Exact:
    """All exact values of a run. Where they are equal, so are the measurements, without reading each."""
    found = brief(record) if isinstance(record, RunRecord) else record
    return [(rank.rank, phase, _values_of(reading)) for rank in found.ranks for phase, reading in rank.phases.items()]


def differing(mine: Exact, base: Exact) -> list[tuple[str, str]]:
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


def read(exact: Exact, metric: str, phase: str) -> Reading | None:
    """A per-phase metric of a run; None where it was not measured."""
    values = []
    for rank, at, columns in exact:
        if at == phase and (value := _value(columns, metric)) is not None:
            values.append((value, -rank))
    if not values:
        return None
    worst, smallest = max(values), min(values)
    return Reading(worst[0], -worst[1], worst[0] - smallest[0], tuple((-negative, value) for value, negative in values))


def worst_values(exact: Exact) -> dict[tuple[str, str], float]:
    """``(phase, metric) -> value`` of the worst rank, for every per-phase metric that was measured."""
    worst: dict[tuple[str, str], float] = {}
    for _, phase, columns in exact:
        kinds = columns[_COLLECTIVES].values()
        values = (*columns[:_COLLECTIVES], sum(pair[0] for pair in kinds), sum(pair[1] for pair in kinds))
        for name, value in zip(_METRIC_NAMES, values, strict=True):
            if value is not None and value > worst.get((phase, name), -1):
                worst[phase, name] = value
    return worst


def collectives_by_kind(exact: Exact, phase: str, rank: int) -> dict[str, list[int]]:
    """``kind -> [count, bytes]`` of one rank."""
    for other, at, columns in exact:
        if other == rank and at == phase:
            return {kind: list(pair) for kind, pair in columns[_COLLECTIVES].items()}
    return {}


def median(round_s: Sequence[float]) -> float:
    """Of the timed rounds: what a step took."""
    return statistics.median(round_s)


def init_s(record: Brief) -> float | None:
    """Of the slowest rank."""
    return max((rank.init_s for rank in record.ranks), default=None)


def _value(columns: Sequence[Any], metric: str) -> float | None:
    value: float | None
    if metric == "collective_count":
        value = sum(pair[0] for pair in columns[_COLLECTIVES].values())
    elif metric == "collective_bytes":
        value = sum(pair[1] for pair in columns[_COLLECTIVES].values())
    else:
        value = columns[_PLACE[metric]]
    return value
