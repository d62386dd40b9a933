"""Memory, host work, communication and compute: exact, so every difference is real and only its size is judged."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dsregress.compare.metrics import (
    ATTENTION_OFF_FLASH,
    BY_NAME,
    COLLECTIVE_COUNT,
    DEVICE_RETAINED,
    HOST_RETAINED,
    OP_LAUNCHES,
    Metric,
)
from dsregress.compare.result_pairs import Pair
from dsregress.compare.worst_readings import (
    Exact,
    WorstRank,
    attention_by_kernel,
    collectives_by_kind,
    differing,
    largest_phase,
    worst_rank,
)
from dsregress.config.thresholds import Thresholds
from dsregress.messages import Message, Text, message
from dsregress.model import Finding
from dsregress.probe.border.wire import REGULAR_PHASES, Detail
from dsregress.wording.names import stage_words
from dsregress.wording.quantities import quantity, share


class Difference(msgspec.Struct, frozen=True):
    """One metric in which two measurements differ, judged and worded. It belongs to the measurements, not to a cell: many
    cells of a release measure the same."""

    metric: str
    phase: str
    unit: str
    value: float
    baseline: float
    rank: int
    relevant: bool
    sentence: Message
    evidence: tuple[str, ...]


#: What a program launches once, at its start, weighs this much less than what it launches in every step.
_ONCE = 100

#: The phase in which a program loads, and what is held after it.
_LOAD, _RETAINED = "load", (DEVICE_RETAINED, HOST_RETAINED)


def differences(own: Exact, base: Exact, thresholds: Thresholds, *, is_program: bool = False) -> list[Difference]:
    """Return a difference for every metric and phase in which the worst ranks differ. A metric for all phases is compared in
    the phase that needs most. Operations at the start of a given program take some hundredths of a second, once, before
    they matter. What loading leaves matters if it stays: another release may load what this one copies later."""
    found = []
    for metric, phase, base_phase in _phase_pairs(own, base):
        mine, theirs = worst_rank(own, metric, phase), worst_rank(base, metric, base_phase)
        if mine is None or theirs is None or mine.value == theirs.value:
            continue
        relevant = metric.relevant(mine.value, theirs.value, thresholds)
        if is_program and metric is OP_LAUNCHES and phase == "init":
            relevant &= abs(mine.value - theirs.value) >= _ONCE * thresholds.op_launches
        if phase == _LOAD and metric in _RETAINED:
            relevant &= _stays(own, base, metric, mine.value - theirs.value)
        evidence = _evidence(metric, phase, mine, theirs, own, base) if relevant else ()
        sentence = change_text(metric, phase, mine.value, theirs.value)
        found.append(
            Difference(
                metric.name, phase, metric.unit, mine.value, theirs.value, mine.rank, relevant, sentence, evidence
            )
        )
    return found


def _stays(own: Exact, base: Exact, metric: Metric, difference: float) -> bool:
    """Return True if a phase of a step, or the rest of the start, holds at least half of a difference, or none is known."""
    kept = [(worst_rank(own, metric, phase), worst_rank(base, metric, phase)) for phase in REGULAR_PHASES]
    known = [mine.value - theirs.value for mine, theirs in kept if mine is not None and theirs is not None]
    return not known or any(one * difference > 0 and abs(one) >= abs(difference) / 2 for one in known)


def _phase_pairs(own: Exact, base: Exact) -> Iterator[tuple[Metric, str, str]]:
    """Yield the metric, the phase and the baseline's phase to compare it with."""
    different = differing(own, base)
    for phase, metric in different:
        if not metric.is_for_all_phases:
            yield metric, phase, phase
    for metric in dict.fromkeys(metric for _, metric in different if metric.is_for_all_phases):
        phases = [largest_phase(exact, metric) for exact in (own, base)]
        yield metric, phases[0], phases[1]


def finding(pair: Pair, difference: Difference) -> Finding:
    """Return a difference as a finding on one cell."""
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
        sentence=difference.sentence,
        rank=difference.rank,
        evidence=difference.evidence,
    )


def change_text(metric: Metric, phase: str, value: float, before: float, than: Text = "") -> Message:
    """Return the change in words: ``backward holds 2 MiB more after it ends than 0.15.0 (+50 %): 4 MiB -> 6 MiB``."""
    subject = message("a step") if metric.is_for_all_phases else stage_words(phase)
    changed = metric.phrase.of_subject(subject, metric.size(abs(value - before)), more=value > before)
    if than:
        changed = message("{change} than {release}", change=changed, release=than)
    sizes = {"before": metric.size(before), "now": metric.size(value)}
    return message("{change} ({share}): {before} -> {now}", change=changed, share=share(value, before), **sizes)


def headline_order(found: Finding) -> tuple[int, int, float]:
    """Return the sort key of a finding on memory. The finding that explains the others on its cell comes first: retained
    memory explains a later peak, and the earliest phase is the cause."""
    metric = BY_NAME[found.metric]
    order = metric.phases.index(found.phase) if found.phase in metric.phases else len(metric.phases)
    return (metric.headline_order, order, -abs(found.value - found.baseline_value))


def grown_functions(found: Finding, detail: Detail | None, baseline: Detail | None, most: int = 5) -> tuple[str, ...]:
    """Return the functions that a phase calls more (or less) often than in the baseline, the largest change first."""
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
    metric: Metric, phase: str, mine: WorstRank, theirs: WorstRank, record: Exact, base: Exact
) -> tuple[str, ...]:
    lines = []
    if mine.skew or theirs.skew:
        ranks = ", ".join(f"{rank}: {quantity(value, metric.unit)}" for rank, value in mine.by_rank[:8])
        dots = ", ..." if len(mine.by_rank) > 8 else ""
        lines.append(
            f"by rank: {ranks}{dots} (skew {quantity(mine.skew, metric.unit)}, "
            f"baseline's {quantity(theirs.skew, metric.unit)})"
        )
    if metric.family == COLLECTIVE_COUNT.family:
        before, after = collectives_by_kind(base, phase, theirs.rank), collectives_by_kind(record, phase, mine.rank)
        for kind in sorted({**before, **after}):
            old, new = before.get(kind, [0, 0]), after.get(kind, [0, 0])
            if old != new:
                lines.append(
                    f"{kind}: {old[0]:,} -> {new[0]:,} calls, "
                    f"{quantity(old[1], 'bytes')} -> {quantity(new[1], 'bytes')}"
                )
    if metric is ATTENTION_OFF_FLASH:
        before_calls = attention_by_kernel(base, phase, theirs.rank)
        calls = attention_by_kernel(record, phase, mine.rank)
        lines += [
            f"{kernel}: {before_calls.get(kernel, 0):,} -> {calls.get(kernel, 0):,} of {sum(calls.values()):,} calls"
            for kernel in sorted({**before_calls, **calls})
            if before_calls.get(kernel, 0) != calls.get(kernel, 0)
        ]
    return tuple(lines)
