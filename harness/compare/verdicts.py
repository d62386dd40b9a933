"""The comparison: results in, findings out. Pure: reads no file but through ``detail_of``, and prints nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from harness.collecting import collector_paused
from harness.compare import changed, exact, ideal_memory, oracles, outcomes, timing
from harness.compare.comparison import Comparison, DetailOf, Group, NotCompared
from harness.compare.history import in_version_order, spans
from harness.compare.measured import Measured
from harness.compare.metrics import BY_NAME, Exact
from harness.compare.notes import notes_on
from harness.compare.pairs import Index, Pair, left_out, why_not
from harness.compare.wording import outcome_text, stack_names
from harness.model import Finding, Passed, Result
from harness.thresholds import Thresholds

#: Differences below the thresholds are listed up to this many, and counted beyond.
MOST_SMALL = 5_000

#: The functions that grew are looked up for this many findings, worst first.
MOST_EXPLAINED = 200

_KINDS = ("failed", "wrong", "regression", "changed", "improvement")


def compare(
    results: Iterable[Result | Measured], baseline: str, thresholds: Thresholds, detail_of: DetailOf
) -> Comparison:
    """Judges every result against the baseline stack's (by its id) for the same workload, and against the oracles.

    Of several results of one cell the newest counts. Raises nothing for missing or failed results: they are in the
    comparison, with the reason.
    """
    with collector_paused():
        return _compare(results, baseline, thresholds, detail_of)


def _compare(
    results: Iterable[Result | Measured], baseline: str, thresholds: Thresholds, detail_of: DetailOf
) -> Comparison:
    index = Index(results, baseline)
    pairs = index.pairs()
    findings: list[Finding] = []
    small: list[Finding] = []
    silent: list[NotCompared] = []
    comparable: list[Pair] = []
    judged: dict[str, set[str]] = defaultdict(set)
    differences = _Differences(thresholds)
    small_differences = 0
    for pair in pairs:
        if (reason := left_out(pair)) is not None:
            silent.append(reason)
            continue
        if (outcome := outcomes.judge(pair)) is not None:
            findings.append(outcome)
        findings += oracles.judge(pair)
        findings += ideal_memory.judge(pair, thresholds)
        reason_text = _cannot(pair)
        if reason_text:
            if outcome is not None and outcome.kind == "failed":
                continue  # the finding tells why
            silent.append(NotCompared(pair.stack, pair.workload, "everything", reason_text))
            continue
        comparable.append(pair)
        judged[pair.workload].add(pair.stack)
        if not pair.is_baseline:
            for difference in differences.of(pair):
                if difference.relevant:
                    findings.append(exact.finding(pair, difference))
                else:
                    small_differences += 1
                    if small_differences <= MOST_SMALL:
                        small.append(exact.finding(pair, difference))
    timed, step_times, control, untimed = timing.judge(comparable, thresholds)
    told, notes = changed.judge(comparable, detail_of)
    groups = _groups([*findings, *timed, *told])
    groups = _explained(groups, {(pair.stack, pair.workload): pair for pair in comparable}, detail_of)
    told_apart: dict[str, set[str]] = defaultdict(set)  # workload -> stacks whose step time has a verdict
    for time in step_times:
        if time.verdict != "unknown":
            told_apart[time.workload] |= {time.stack, baseline}
    stacks = in_version_order(list(index.stacks.values()))
    names = stack_names(stacks)
    listed = [found for group in groups for found in (group.headline, *group.related)]
    return Comparison(
        baseline=baseline,
        stacks=tuple(stacks),
        names=names,
        cells=tuple(pair.own for pair in pairs),
        groups=tuple(groups),
        findings=tuple(sorted([*listed, *small], key=severity)),
        small_differences=small_differences,
        not_compared=(*silent, *untimed),
        step_times=tuple(step_times),
        control=tuple(control),
        spans=tuple(spans(groups, stacks, names, baseline, judged, told_apart)),
        notes=(*notes_on(comparable, names, index.installed, index.superseded), *notes),
        passed=sum(isinstance(pair.result.outcome, Passed) for pair in pairs),
        compared=sum(pair.stack != baseline for pair in comparable),
        ran=len(pairs),
    )


def severity(found: Finding) -> tuple[bool, int, bool, float]:
    """Sorts worst first: what matters, then by kind, then memory (it ends a job, time costs), then by size relative to
    the baseline."""
    return (not found.relevant, _KINDS.index(found.kind), BY_NAME[found.metric].family != "memory", -_size(found))


class _Differences:
    """The exact comparison, made once for each two measurements, however many cells share them."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self._known: dict[tuple[bytes, bytes], list[exact.Difference]] = {}
        self._baseline: tuple[bytes, Exact] = (b"", [])

    def of(self, pair: Pair) -> list[exact.Difference]:
        """In which exact values a cell differs from the baseline's."""
        if pair.base is None or pair.own.packed == pair.base.packed:
            return []
        key = (pair.own.packed, pair.base.packed)
        known = self._known.get(key)
        if known is None:
            if self._baseline[0] is not pair.base.packed:  # the cells of one workload come together
                self._baseline = (pair.base.packed, pair.base.exact())
            known = self._known[key] = exact.differences(pair.own.exact(), self._baseline[1], self.thresholds)
        return known


def _cannot(pair: Pair) -> str:
    """Why there is no comparison with the baseline; empty where there is one."""
    base = pair.baseline
    if base is not None and not pair.is_baseline and not isinstance(base.outcome, Passed):
        return why_not(pair) or f"the baseline {_ended(base)}"
    if not isinstance(pair.result.outcome, Passed):
        return f"it {_ended(pair.result)}"
    if pair.base is not None and not pair.base.recorded:
        return "the baseline's measurements are missing"
    return "" if pair.is_baseline else why_not(pair)


def _ended(result: Result) -> str:
    """How a result that did not pass ended, as the end of a sentence."""
    text = outcome_text(result.outcome)
    return f"ran {text}" if text.startswith("out of memory") else f"gave {text}" if text.startswith("no sign") else text


def _size(found: Finding) -> float:
    """How much, relative to the baseline; floors keep what grew from next to nothing from outranking all else."""
    if found.metric not in BY_NAME or not BY_NAME[found.metric].floor:
        return float("inf") if found.kind in ("failed", "wrong") and not isinstance(found.value, float) else 0.0
    floor = getattr(_DEFAULTS, BY_NAME[found.metric].floor)
    size: float = abs(found.value - found.baseline_value) / (found.baseline_value + floor or 1)
    return size


_DEFAULTS = Thresholds()


def _groups(findings: Sequence[Finding]) -> list[Group]:
    """Findings of one cell, family and direction under their most telling one, worst group first."""
    together: dict[tuple[str, str, str, str], list[Finding]] = defaultdict(list)
    for found in findings:
        family = BY_NAME[found.metric].family
        own = str(len(together)) if found.kind == "changed" else ""  # each changed setting speaks for itself
        together[found.cell, family, found.kind, own].append(found)
    groups = []
    for members in together.values():
        if len(members) == 1:
            groups.append(Group(members[0]))
            continue
        head = _headline(members)
        groups.append(Group(head, tuple(sorted((m for m in members if m is not head), key=severity))))
    return sorted(groups, key=lambda group: severity(group.headline))


def _headline(members: Sequence[Finding]) -> Finding:
    if BY_NAME[members[0].metric].family == "memory":
        largest = max(abs(m.value - m.baseline_value) for m in members)
        telling = [m for m in members if abs(m.value - m.baseline_value) >= largest / 2]
        return min(telling, key=exact.headline_order)
    return min(members, key=severity)


def _explained(groups: Sequence[Group], pairs: dict[tuple[str, str], Pair], detail_of: DetailOf) -> list[Group]:
    """Names the functions that grew, for the findings on host work that matter most."""
    left = MOST_EXPLAINED
    explained = []
    for group in groups:
        head = group.headline
        if left and head.relevant and BY_NAME[head.metric].family == "host work":
            left -= 1
            pair = pairs[head.stack, f"{head.scenario}/{head.variant}/{head.device}"]
            detail, base = detail_of(pair.result), detail_of(pair.baseline) if pair.baseline else None
            members = [
                msgspec.structs.replace(m, evidence=(*m.evidence, *exact.grown_functions(m, detail, base)))
                if m.metric == "host_calls"
                else m
                for m in (head, *group.related)
            ]
            group = Group(members[0], tuple(members[1:]))
        explained.append(group)
    return explained
