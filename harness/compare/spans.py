"""The releases that have a finding and those that do not: one sentence for a finding that several stacks share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache

from packaging.version import InvalidVersion, Version

from harness.compare.comparison import Group, Span
from harness.compare.metrics import BY_NAME, STEP_TIME
from harness.model import AXES, Finding, Stack
from harness.wording.names import varied_axes, version
from harness.wording.quantities import share


def in_version_order(stacks: Sequence[Stack]) -> list[Stack]:
    """Oldest first, by each axis in turn; what is not a version sorts before what is."""

    def key(stack: Stack) -> list[tuple[int, Version | str]]:
        axes = ["python", *AXES, *sorted(set(stack.versions) - set(AXES))]
        return [_sortable(version(stack, axis)) for axis in axes]

    return sorted(stacks, key=key)


def spans(
    groups: Sequence[Group],
    stacks: Sequence[Stack],
    names: Mapping[str, str],
    baseline: str,
    judged: Mapping[str, frozenset[str]],
    timed: Mapping[str, frozenset[str]],
) -> list[Span]:
    """The regressions over the stacks, worst first as ``groups`` are.

    ``stacks`` are in version order; ``judged`` has the stacks with a verdict for each workload, ``timed`` those with a
    verdict on step time. Workloads in which the same stacks have the same finding share a span.
    """
    having: dict[tuple[str, str, str], dict[str, dict[str, Finding]]] = defaultdict(lambda: defaultdict(dict))
    headlines: set[tuple[str, str, str]] = set()  # metric, phase, workload
    for group in groups:
        head = group.headline
        if head.relevant and head.kind == "regression":
            workload = head.workload
            headlines.add((head.metric, head.phase, workload))
            for found in group.findings:
                having[found.metric, found.phase, found.kind][workload].setdefault(found.stack, found)
    merged: dict[tuple[str, str, str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    order = [stack.id for stack in stacks]

    @cache  # many workloads have the same finding in the same stacks
    def split(found: tuple[str, ...], verdicts: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        present = tuple(stack for stack in order if stack in found)
        return present, tuple(stack for stack in order if stack in verdicts and stack not in found)

    for key, workloads in having.items():
        for workload, by_stack in workloads.items():
            if (key[0], key[1], workload) not in headlines:
                continue
            verdicts = (timed if key[0] == STEP_TIME.name else judged).get(workload, frozenset())
            merged[(*key, *split(tuple(by_stack), verdicts))].append(workload)
    position = {found.key: at for at, group in enumerate(groups) for found in group.findings}
    result = []
    for (metric, phase, kind, present, free), workloads_with in merged.items():
        all_found = [having[metric, phase, kind][w][s] for w in workloads_with for s in present]
        unknown = tuple(stack for stack in order if stack not in present and stack not in free)
        result.append(
            Span(
                metric=metric,
                phase=phase,
                kind=kind,
                workloads=tuple(sorted(workloads_with)),
                having=present,
                free=free,
                unknown=unknown,
                worst=min(all_found, key=lambda found: position[found.key]),
                sentence=_sentence(all_found, present, free, unknown, stacks, names, baseline),
            )
        )
    return sorted(result, key=lambda span: position[span.worst.key])


def _sentence(
    found: Sequence[Finding],
    present: Sequence[str],
    free: Sequence[str],
    unknown: Sequence[str],
    stacks: Sequence[Stack],
    names: Mapping[str, str],
    baseline: str,
) -> str:
    axes = varied_axes(stacks)
    prefix = f"{axes[0]} " if len(axes) == 1 else ""
    releases = ranges(present, stacks, names)
    text = f"{prefix}{releases} {_what(found, many=len(present) > 1)} {names.get(baseline, baseline)}"
    text += f". Not in {ranges(free, stacks, names)}" if free else ". No measured release is free of it"
    if unknown:
        text += f"; no verdict for {ranges(unknown, stacks, names)}"
    return text + "."


def _what(found: Sequence[Finding], *, many: bool) -> str:
    """``hold 1.31 MiB more after backward ends (2.6x, rank 0)``."""
    first, metric = found[0], BY_NAME[found[0].metric]
    if metric is STEP_TIME:
        ratios = sorted(f.ratio for f in found if f.ratio is not None)
        low, high = f"{ratios[0]:.2f}", f"{ratios[-1]:.2f}"
        size = low if low == high else f"{low} to {high}"
        return f"{metric.phrase.of_releases(size, first.phase, more=True, many=many)} per step as"
    changes = sorted(found, key=lambda f: float(abs(f.value - f.baseline_value)))
    low, high = (metric.size(abs(f.value - f.baseline_value)) for f in (changes[0], changes[-1]))
    size = low if low == high else f"{low} to {high}"
    words = metric.phrase.of_releases(size, first.phase, more=True, many=many)
    worst = changes[-1]
    rank = f", rank {worst.rank}" if worst.rank is not None else ""
    upto = "up to " if low != high else ""
    return f"{words} ({upto}{share(worst.value, worst.baseline_value)}{rank}) than"


def ranges(ids: Sequence[str], stacks: Sequence[Stack], names: Mapping[str, str]) -> str:
    """Short names, ``0.16.0 to 0.16.7, 0.18.1``: neighbours among the measured stacks are joined where one axis varies."""
    if len(varied_axes(stacks)) > 1:
        return ", ".join(names[stack] for stack in ids)
    order = {stack.id: at for at, stack in enumerate(stacks)}
    runs: list[list[str]] = []
    for stack in ids:
        if runs and order[stack] == order[runs[-1][-1]] + 1:
            runs[-1].append(stack)
        else:
            runs.append([stack])
    parts = []
    for run in runs:
        ends = [names[run[0]], names[run[-1]]]
        if len(run) > 2:
            parts.append(f"{ends[0]} to {ends[1]}")
        else:
            parts += [names[stack] for stack in run]
    return ", ".join(parts)


def _sortable(text: str) -> tuple[int, Version | str]:
    try:
        return (1, Version(text))
    except InvalidVersion:
        return (0, text)
