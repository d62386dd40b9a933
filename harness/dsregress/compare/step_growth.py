"""Growth from step to step of a program that runs on, against the baseline's: objects, tensors and memory that pile up make
a long run slower, until a card's or the host's memory ends."""

from __future__ import annotations

from typing import NamedTuple

from dsregress.compare.metrics import OBJECT_GROWTH, RESIDENT_GROWTH, TENSOR_GROWTH, Metric
from dsregress.compare.result_pairs import Pair
from dsregress.messages import Message, Text, message
from dsregress.model import Finding
from dsregress.wording.quantities import quantity


class _GrowthKind(NamedTuple):
    metric: Metric
    field: str
    #: how much more than the baseline's is worth a finding. A trainer's log grows by a few objects. The largest tensors of a
    #: shrunk model have some kilobytes. A process grows by whole pages, and by whatever its allocator takes at once.
    least: float
    claim: Message


_TENSORS = _GrowthKind(TENSOR_GROWTH, "tensor_bytes", 4096.0, message("memory of tensors grows from step to step"))
_RESIDENT = _GrowthKind(
    RESIDENT_GROWTH, "resident_bytes", 256 * 1024.0, message("memory of the host grows from step to step")
)
_OBJECTS = _GrowthKind(OBJECT_GROWTH, "objects", 50.0, message("Python objects pile up from step to step"))

#: What explains the others comes first: memory that is no tensor's is counted without that of the tensors.
_KINDS = (_TENSORS, _RESIDENT, _OBJECTS)


def judge_step_growth(pair: Pair) -> list[Finding]:
    """Return a finding for each kind of which much more stays after each step than with the baseline."""
    if pair.base is None or pair.is_baseline:
        return []
    found = []
    for kind in _KINDS:
        own, base = getattr(pair.own.step_growth, kind.field), getattr(pair.base.step_growth, kind.field)
        if own is not None and base is not None and own - base >= kind.least:
            found.append(_growth_finding(pair, kind, own, base))
    return found


def _growth_finding(pair: Pair, kind: _GrowthKind, own: float, base: float) -> Finding:
    metric = kind.metric
    return pair.finding(
        metric,
        kind="regression",
        value=own,
        baseline_value=base,
        ratio=own / base if base > 0 else None,
        claim=kind.claim,
        sentence=_left_by_a_step(metric, own, base),
    )


def _left_by_a_step(metric: Metric, own: float, base: float) -> Text:
    after, before = quantity(own, metric.unit), quantity(base, metric.unit)
    if metric is TENSOR_GROWTH:
        return message("each step leaves {after} of tensors, was {before}", after=after, before=before)
    if metric is RESIDENT_GROWTH:
        return message("each step leaves {after} in the host's memory, was {before}", after=after, before=before)
    return message("each step leaves {after:,.0f} objects, was {before:,.0f}", after=own, before=base)
