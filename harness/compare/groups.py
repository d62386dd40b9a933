"""Which findings belong together, and which are worst."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from harness.compare import exact
from harness.compare.comparison import Group
from harness.compare.metrics import BY_NAME, DEVICE_PEAK
from harness.config.thresholds import Thresholds
from harness.model import Finding

_MEMORY = DEVICE_PEAK.family
_KINDS = ("failed", "wrong", "regression", "changed", "improvement")


def severity(found: Finding) -> tuple[bool, int, bool, float]:
    """Sorts worst first: what matters, then by kind, then memory (it ends a job, time costs), then by size relative to
    the baseline."""
    return (not found.relevant, _KINDS.index(found.kind), BY_NAME[found.metric].family != _MEMORY, -_size(found))


def _size(found: Finding) -> float:
    """The size relative to the baseline. The floor keeps what grew from next to nothing from outranking all else."""
    if found.kind in ("failed", "wrong"):
        return 0.0 if isinstance(found.value, float) else float("inf")
    metric = BY_NAME.get(found.metric)
    if metric is None or metric.floor is None:
        return 0.0
    size: float = abs(found.value - found.baseline_value) / (found.baseline_value + metric.floor(_DEFAULTS) or 1)
    return size


_DEFAULTS = Thresholds()


def together(findings: Sequence[Finding]) -> list[Group]:
    """Groups the findings of one cell, family and kind under a headline, in the order in which they came."""
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
        head = _headline(members)
        groups.append(Group(head, tuple(sorted((m for m in members if m is not head), key=severity))))
    return groups


def _headline(members: Sequence[Finding]) -> Finding:
    if BY_NAME[members[0].metric].family == _MEMORY:
        largest = max(abs(m.value - m.baseline_value) for m in members)
        large = [m for m in members if abs(m.value - m.baseline_value) >= largest / 2]
        return min(large, key=exact.headline_order)
    return min(members, key=severity)
