"""Memory, host work, communication and compute: exact, so any difference is real, and only its size is judged."""

from __future__ import annotations

from collections.abc import Iterable

from harness.compare.metrics import BY_NAME, PHASES, Metric, Reading, collectives_by_kind, read
from harness.compare.pairs import Pair
from harness.compare.thresholds import Thresholds
from harness.compare.wording import quantity, share
from harness.model import Finding
from harness.probe.wire import Detail, RunRecord

#: How each metric's growth reads: what the phase does, and the words for more and for less of it.
_SENTENCES = {
    "device_peak_bytes": ("peaks {} {}", "higher", "lower"),
    "device_retained_bytes": ("holds {} {} after it ends", "more", "less"),
    "host_peak_bytes": ("peaks {} {} in host memory", "higher", "lower"),
    "host_retained_bytes": ("holds {} {} host memory after it ends", "more", "less"),
    "reserved_peak_bytes": ("reserves {} {} device memory", "more", "less"),
    "host_calls": ("makes {} {} Python and C calls", "more", "fewer"),
    "op_launches": ("launches {} {} operations", "more", "fewer"),
    "flops": ("computes {} {}", "more", "less"),
    "collective_count": ("issues {} {} collectives", "more", "fewer"),
    "collective_bytes": ("moves {} {} in collectives", "more", "less"),
}


def judge(
    pair: Pair, columns: Iterable[tuple[str, str]], thresholds: Thresholds
) -> tuple[list[Finding], list[Finding]]:
    """The findings that matter, and those that do not, of the ``(phase, metric)`` that differ on any rank."""
    record, base = pair.result.record, pair.baseline.record if pair.baseline else None
    assert record is not None and base is not None
    matter: list[Finding] = []
    small: list[Finding] = []
    for phase, name in columns:
        mine, theirs = read(record, name, phase), read(base, name, phase)
        if mine is None or theirs is None or mine.value == theirs.value:
            continue
        metric = BY_NAME[name]
        if metric.relevant(mine.value, theirs.value, thresholds):
            evidence = _evidence(metric, phase, mine, theirs, record, base)
            matter.append(_finding(pair, phase, metric, mine, theirs.value, relevant=True, evidence=evidence))
        else:
            small.append(_finding(pair, phase, metric, mine, theirs.value, relevant=False, evidence=()))
    return matter, small


def _finding(
    pair: Pair,
    phase: str,
    metric: Metric,
    mine: Reading,
    baseline: float,
    *,
    relevant: bool,
    evidence: tuple[str, ...],
) -> Finding:
    value = mine.value
    unit = "" if metric.unit in ("calls", "launches", "collectives") else metric.unit
    sentence, more, less = _SENTENCES[metric.name]
    direction = more if value > baseline else less
    change = sentence.format(quantity(abs(value - baseline), unit), direction)
    return pair.finding(
        metric=metric.name,
        phase=phase,
        kind="regression" if value > baseline else "improvement",
        value=value,
        baseline_value=baseline,
        ratio=value / baseline if baseline else None,
        unit=metric.unit,
        significant=True,
        relevant=relevant,
        message=f"{phase} {change} ({share(value, baseline)}): "
        f"{quantity(baseline, unit)} -> {quantity(value, unit)}, rank {mine.rank}",
        rank=mine.rank,
        evidence=evidence,
    )


def headline_order(found: Finding) -> tuple[int, float]:
    """How telling a memory finding is: what stays behind explains what peaks later, and the earliest cause comes first."""
    order = {
        "device_retained_bytes": ("init", "backward", "forward", "step"),
        "host_retained_bytes": ("init", "backward", "forward", "step"),
        "device_peak_bytes": ("backward", "forward", "step", "init"),
        "host_peak_bytes": ("backward", "forward", "step", "init"),
        "reserved_peak_bytes": ("backward", "forward", "step", "init"),
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
    metric: Metric, phase: str, mine: Reading, theirs: Reading, record: RunRecord, base: RunRecord
) -> tuple[str, ...]:
    lines = []
    if len(mine.by_rank) > 1:
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
