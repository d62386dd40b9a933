"""Findings grouped, and sorted by severity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from dsregress.compare import exact_differences
from dsregress.compare.comparison import Group, ProblemKind
from dsregress.compare.metrics import (
    BY_NAME,
    COMES_OUT,
    DEVICE_PEAK,
    DEVICE_RETAINED,
    HOST_PEAK,
    HOST_RETAINED,
    OUTCOME,
    PILES_UP,
    SAVED_DIFFERENCE,
    SMALLEST_CARD,
    STEP_TIME,
    TRAINING_DIFFERENCE,
)
from dsregress.compare.outcomes import is_out_of_memory
from dsregress.config.thresholds import Thresholds
from dsregress.model import Finding

_MEMORY = DEVICE_PEAK.family
_ALLOCATED = {DEVICE_PEAK.name, DEVICE_RETAINED.name}
_ON_DEVICE = {*_ALLOCATED, SMALLEST_CARD.name}
_ON_HOST = {HOST_PEAK.name, HOST_RETAINED.name}
_HELD = {metric.name for metric in (DEVICE_RETAINED, HOST_RETAINED, *PILES_UP)}


def severity(found: Finding) -> tuple[bool, int, float]:
    """Return the sort key of a finding, the worst first: by relevance, then by the effect on a job, then by size."""
    rank = {"changed": len(ProblemKind), "improvement": len(ProblemKind) + 1}.get(found.kind)
    return (not found.relevant, kind_of(found) if rank is None else rank, -_relative_size(found))


def gravity(
    kind: ProblemKind, worst: Finding, until: int
) -> tuple[ProblemKind, int, bool, int, tuple[bool, int, float]]:
    """Return the sort key of a problem, the gravest first: by kind, then those that newer releases have, then by size. Of
    training that differs, what is far from the baseline comes before what is near, such as the noise of dropout. Among
    costs, memory comes before work, because a job on a smaller card ends by it. ``until`` is the position of the last
    release that has the problem."""
    is_work = kind is ProblemKind.MORE and BY_NAME[worst.metric].fails != "memory"
    is_near = kind is ProblemKind.DIFFERENT and worst.metric == TRAINING_DIFFERENCE.name
    return kind, -_doublings(worst.value) if is_near else -_MOST_DOUBLINGS, is_work, -until, severity(worst)


#: A relative difference is at most some fifty tolerances.
_MOST_DOUBLINGS = 6


def _doublings(tolerances: float) -> int:
    return min(_MOST_DOUBLINGS, max(0, int(tolerances)).bit_length())


#: Memory held after this phase is needed by backward, so it is no leak.
_FORWARD = "forward"


def kind_of(found: Finding) -> ProblemKind:
    """Return the effect on a job of a finding that is worse."""
    metric = BY_NAME[found.metric]
    if metric is OUTCOME:
        if is_out_of_memory(found):
            return ProblemKind.OUT_OF_MEMORY
        return ProblemKind.UNTESTABLE if found.phase in ("install", "import") else ProblemKind.CRASH
    if metric is SAVED_DIFFERENCE:
        return ProblemKind.SAVES
    if metric.fails == "numerics":
        return ProblemKind.WRONG if found.kind == "wrong" else ProblemKind.DIFFERENT
    if metric.family == STEP_TIME.family:
        return ProblemKind.SLOWER
    if found.phase == _FORWARD or _HELD.isdisjoint({metric.name, metric.explained_by}):
        return ProblemKind.MORE
    return ProblemKind.LEAK


def _relative_size(found: Finding) -> float:
    """Return the size relative to the baseline; for a finding of an oracle, in multiples of its tolerance. The floor keeps
    growth from next to nothing from outranking everything else."""
    metric = BY_NAME[found.metric]
    if metric in COMES_OUT:  # it is a distance from the baseline itself
        return float(found.value)
    floor = metric.floor(_DEFAULTS) if metric.floor is not None else 0.0
    if found.kind == "wrong":
        return found.value / (floor or 1.0) if isinstance(found.value, (int, float)) else float("inf")
    if found.kind == "failed" or not floor:
        return 0.0
    return float(abs(found.value - found.baseline_value) / (found.baseline_value + floor))


_DEFAULTS = Thresholds()


def group_findings(findings: Sequence[Finding]) -> list[Group]:
    """Group the findings of one cell, family and kind under a headline. Groups are in the order of their first findings."""
    members_of: dict[tuple[str, str, str, str], list[Finding]] = defaultdict(list)
    for found in findings:
        family = BY_NAME[found.metric].family
        own = str(len(members_of)) if found.kind == "changed" else ""  # each changed setting is a group
        members_of[found.cell, family, found.kind, own].append(found)
    groups = []
    for members in members_of.values():
        if len(members) == 1:
            groups.append(Group(members[0]))
            continue
        head = _headline_of(members)
        groups.append(Group(head, tuple(sorted((m for m in members if m is not head), key=severity))))
    return groups


#: Share of the largest increase below which an increase is minor.
_MINOR = 0.1


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort findings by severity. An increase by a few bytes comes after one that is many times as large, because the large
    one ends a job; host bytes weigh little compared with device bytes, too."""
    found = list(findings)
    on_device = max((_more_bytes(one) for one in found if one.metric in _ON_DEVICE), default=0.0)
    on_host = max((_more_bytes(one) for one in found if one.metric in _ON_HOST), default=0.0)
    enough = {
        **dict.fromkeys(_ALLOCATED, _MINOR * on_device),
        **dict.fromkeys(_ON_HOST, _MINOR * max(on_device, on_host)),
    }

    def is_minor(one: Finding) -> bool:
        return 0 < _more_bytes(one) < enough.get(one.metric, 0.0)

    return sorted(found, key=lambda one: (is_minor(one), severity(one)))


def _more_bytes(found: Finding) -> float:
    return abs(found.value - found.baseline_value) if found.kind == "regression" else 0.0


def _headline_of(members: Sequence[Finding]) -> Finding:
    if BY_NAME[members[0].metric].family == _MEMORY:
        largest = max(abs(m.value - m.baseline_value) for m in members)
        large = [m for m in members if abs(m.value - m.baseline_value) >= largest / 2]
        return min(large, key=exact_differences.headline_order)
    return min(members, key=severity)
