"""Memory, host work, communication and compute: exact, so any difference is real, and only its size is judged."""

from __future__ import annotations

import msgspec

from harness.compare.metrics import BY_NAME, Exact, Metric, Reading, collectives_by_kind, differing, read
from harness.compare.pairs import Pair
from harness.config.thresholds import Thresholds
from harness.model import Finding
from harness.probe.border.wire import PHASES, Detail
from harness.wording.quantities import quantity, share

#: How each metric's growth reads: what the phase does, and the words for more and for less of it.
_SENTENCES = {
    "device_peak_bytes": ("peaks {} {}", "higher", "lower"),
    "device_retained_bytes": ("holds {} {} after it ends", "more", "less"),
    "host_peak_bytes": ("peaks {} {} in host memory", "higher", "lower"),
    "host_retained_bytes": ("holds {} {} host memory after it ends", "more", "less"),
    "reserved_peak_bytes": ("reserves {} {} device memory", "more", "less"),
    "smallest_card_bytes": ("needs a card with {} {} memory", "more", "less"),
    "host_calls": ("makes {} {} Python and C calls", "more", "fewer"),
    "op_launches": ("launches {} {} operations", "more", "fewer"),
    "flops": ("computes {} {}", "more", "less"),
    "collective_count": ("issues {} {} collectives", "more", "fewer"),
    "collective_bytes": ("moves {} {} in collectives", "more", "less"),
}


class Difference(msgspec.Struct, frozen=True):
    """One metric in which two measurements differ, judged and worded. Belongs to the measurements, not to a cell: most
    cells of a release share theirs with others."""

    metric: str
    phase: str
    unit: str
    value: float
    baseline: float
    rank: int
    relevant: bool
    message: str
    evidence: tuple[str, ...]


def differences(own: Exact, base: Exact, thresholds: Thresholds) -> list[Difference]:
    """All in which the worst ranks differ."""
    found = []
    for phase, name in differing(own, base):
        mine, theirs = read(own, name, phase), read(base, name, phase)
        if mine is None or theirs is None or mine.value == theirs.value:
            continue
        metric = BY_NAME[name]
        relevant = metric.relevant(mine.value, theirs.value, thresholds)
        evidence = _evidence(metric, phase, mine, theirs, own, base) if relevant else ()
        message = _message(metric, phase, mine, theirs.value)
        found.append(
            Difference(name, phase, metric.unit, mine.value, theirs.value, mine.rank, relevant, message, evidence)
        )
    return found


def finding(pair: Pair, difference: Difference) -> Finding:
    """A difference as a finding on one cell."""
    value, baseline = difference.value, difference.baseline
    return pair.finding(
        metric=difference.metric,
        phase=difference.phase,
        kind="regression" if value > baseline else "improvement",
        value=value,
        baseline_value=baseline,
        ratio=value / baseline if baseline else None,
        unit=difference.unit,
        significant=True,
        relevant=difference.relevant,
        message=difference.message,
        rank=difference.rank,
        evidence=difference.evidence,
    )


def _message(metric: Metric, phase: str, mine: Reading, baseline: float) -> str:
    value = mine.value
    unit = "" if metric.unit in ("calls", "launches", "collectives") else metric.unit
    sentence, more, less = _SENTENCES[metric.name]
    change = sentence.format(quantity(abs(value - baseline), unit), more if value > baseline else less)
    sizes = f"{quantity(baseline, unit)} -> {quantity(value, unit)}"
    return f"{phase} {change} ({share(value, baseline)}): {sizes}, rank {mine.rank}"


def headline_order(found: Finding) -> tuple[int, float]:
    """How telling a memory finding is: what stays behind explains what peaks later; the earliest cause comes first."""
    order = {
        "device_retained_bytes": ("init", "backward", "forward", "step"),
        "host_retained_bytes": ("init", "backward", "forward", "step"),
        "device_peak_bytes": ("backward", "forward", "step", "init"),
        "host_peak_bytes": ("backward", "forward", "step", "init"),
        "reserved_peak_bytes": ("backward", "forward", "step", "init"),
        "smallest_card_bytes": ("backward", "forward", "step", "init"),
    }
    names = list(order)
    if found.metric not in order:
        return (0, -abs(found.value - found.baseline_value))
    phases = order[found.metric]
    place = phases.index(found.phase) if found.phase in phases else len(PHASES)
    return (names.index(found.metric) * 10 + place, -abs(found.value - found.baseline_value))


def grown_functions(found: Finding, detail: Detail | None, baseline: Detail | None, most: int = 5) -> tuple[str, ...]:
    """Which functions a phase calls more (or less) often than the baseline's, by how many calls, largest first."""
    if detail is None or baseline is None:
        return ()
    mine, theirs = detail.host_functions.get(found.phase, {}), baseline.host_functions.get(found.phase, {})
    sign = 1 if found.kind == "regression" else -1
    changes = sorted(
        ((sign * (mine.get(name, 0) - theirs.get(name, 0)), name) for name in {**mine, **theirs}), reverse=True
    )
    word = "more" if sign > 0 else "fewer"
    return tuple(
        f"{name}: {change:,} {word} calls ({theirs.get(name, 0):,} -> {mine.get(name, 0):,})"
        for change, name in changes[:most]
        if change > 0
    )


def _evidence(
    metric: Metric, phase: str, mine: Reading, theirs: Reading, record: Exact, base: Exact
) -> tuple[str, ...]:
    lines = []
    if mine.skew or theirs.skew:
        ranks = ", ".join(f"{rank}: {quantity(value, metric.unit)}" for rank, value in mine.by_rank[:8])
        dots = ", ..." if len(mine.by_rank) > 8 else ""
        lines.append(
            f"by rank: {ranks}{dots} (skew {quantity(mine.skew, metric.unit)}, "
            f"baseline's {quantity(theirs.skew, metric.unit)})"
        )
    if metric.family == "communication":
        before, after = collectives_by_kind(base, phase, theirs.rank), collectives_by_kind(record, phase, mine.rank)
        for kind in sorted({**before, **after}):
            old, new = before.get(kind, [0, 0]), after.get(kind, [0, 0])
            if old != new:
                lines.append(
                    f"{kind}: {old[0]:,} -> {new[0]:,} calls, "
                    f"{quantity(old[1], 'bytes')} -> {quantity(new[1], 'bytes')}"
                )
    return tuple(lines)
