"""Python objects that stay after each step of a program that runs on, against those with the baseline: hooks, caches and
lists that grow make a long run slower from step to step, until the host's memory ends."""

from __future__ import annotations

from dsregress.compare.metrics import OBJECT_GROWTH
from dsregress.compare.result_pairs import Pair
from dsregress.messages import message
from dsregress.model import Finding

#: More objects a step than the baseline that are worth a finding: a log of a trainer grows by less.
_LEAST = 50.0


def judge_object_growth(pair: Pair) -> list[Finding]:
    """Return a finding if many more objects stay after each step than with the baseline."""
    if pair.base is None or pair.is_baseline:
        return []
    own, base = pair.own.object_growth, pair.base.object_growth
    if own is None or base is None or own - base < _LEAST:
        return []
    return [
        pair.finding(
            metric=OBJECT_GROWTH.name,
            phase=OBJECT_GROWTH.finding_phase,
            kind="regression",
            value=own,
            baseline_value=base,
            ratio=own / base if base > 0 else None,
            unit=OBJECT_GROWTH.unit,
            significant=True,
            relevant=True,
            claim=message("Python objects pile up from step to step"),
            sentence=message("each step leaves {after:,.0f} objects, was {before:,.0f}", after=own, before=base),
        )
    ]
