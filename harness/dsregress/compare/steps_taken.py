"""The steps that a program takes until it ends, against those with the baseline: data may run out, epochs may be lost.

A program that runs on is ended after a while. So of two that did not take equally many, the one that took fewer must have
ended by itself.
"""

from __future__ import annotations

from dsregress.compare.metrics import STEPS_TAKEN
from dsregress.compare.result_pairs import Pair
from dsregress.messages import Message, message
from dsregress.model import Finding


def judge_steps_taken(pair: Pair) -> list[Finding]:
    """Return a finding if a program ends after fewer steps than with the baseline, or goes on where that ends."""
    if pair.base is None or pair.is_baseline:
        return []
    own, base = pair.own, pair.base
    if not own.steps or not base.steps or own.steps == base.steps:
        return []
    if not (own.ended if own.steps < base.steps else base.ended):
        return []
    return [
        pair.finding(
            STEPS_TAKEN,
            kind="regression",
            value=float(own.steps),
            baseline_value=float(base.steps),
            ratio=own.steps / base.steps,
            claim=message("it trains for another number of steps than with the baseline"),
            sentence=_where_it_ends(pair),
        )
    ]


def _where_it_ends(pair: Pair) -> Message:
    assert pair.base is not None
    own, base = pair.own.steps, pair.base.steps
    if pair.own.ended and pair.base.ended:
        return message("training ends after {own} optimizer steps, was {base}", own=own, base=base)
    if pair.own.ended:
        return message("training ends after {own} optimizer steps, and went on before", own=own)
    return message("training goes on after {base} optimizer steps, and ended with them before", base=base)
