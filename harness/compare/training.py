"""Losses and gradient norms against the baseline's, where no truth is known: what a program trains is its own.

The same script, weights and data give the same numbers but for rounding, which a release may order otherwise. A
difference beyond that does not say which release is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.compare.losses import finite_pairs, listed, of_model
from harness.compare.metrics import TRAINING_DIFFERENCE
from harness.compare.pairs import Pair
from harness.model import Finding
from harness.probe.border.wire import Numerics

#: How far losses, and gradient norms, of the first steps may be apart, relative to the larger. bf16 has 8 bits, so one
#: rounding is 0.4 %; a norm is summed over gradients that are rounded each.
LOSS_TOLERANCE, NORM_TOLERANCE = 0.02, 0.05

#: Below this a loss counts as zero, and has no relative error.
_NEAR_ZERO = 1e-3


def judge(pair: Pair) -> list[Finding]:
    """A finding for each model whose losses or gradient norms are further from the baseline's than their tolerance."""
    if pair.base is None or pair.is_baseline:
        return []
    base = dict(pair.base.trained)
    found = [_judged(pair, model, mine, base[model]) for model, mine in pair.own.trained if model in base]
    return list(filter(None, found))


def _judged(pair: Pair, model: str, mine: Numerics, base: Numerics) -> Finding | None:
    quantities = (
        ("losses", mine.losses, base.losses, LOSS_TOLERANCE),
        ("gradient norms", mine.gradient_norms, base.gradient_norms, NORM_TOLERANCE),
    )
    apart = {name: max(_apart(own, other, tolerance), default=0.0) for name, own, other, tolerance in quantities}
    worst = max(apart.values())
    if worst <= 1:
        return None
    name = max(apart, key=lambda name: apart[name])
    return pair.finding(
        metric=TRAINING_DIFFERENCE.name,
        phase=TRAINING_DIFFERENCE.finding_phase,
        kind="regression",
        value=worst,
        baseline_value=0.0,
        ratio=None,
        unit=TRAINING_DIFFERENCE.unit,
        significant=True,
        relevant=True,
        message=of_model(
            model, f"it trains otherwise than the baseline: {name} are {worst:.1f} tolerances apart, rank 0"
        ),
        rank=0,
        evidence=tuple(
            of_model(model, f"{name} {listed(own)}; baseline {listed(other)}")
            for name, own, other, _ in quantities
            if any(own)
        ),
    )


def _apart(mine: Sequence[float | None], base: Sequence[float | None], tolerance: float) -> Iterator[float]:
    for own, other in finite_pairs(mine, base):
        yield abs(own - other) / (tolerance * max(abs(own), abs(other), _NEAR_ZERO))
