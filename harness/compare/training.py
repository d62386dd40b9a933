"""Losses, gradient norms and learning rates against the baseline's: what a program trains is its own.

The same script, weights and data give the same numbers but for rounding, which a release may order otherwise. A
difference beyond that does not say which release is right. Where plain PyTorch has trained what the program asks for, its
gradient norms are compared: whether DeepSpeed's are near them is another question, and they differ where what is asked
differs. Its losses are not, as a library may divide them otherwise and have it undone: so does the Trainer of transformers
4.51.3, and that of 4.47.0 does not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from harness.compare.losses import finite_pairs, listed, of_model
from harness.compare.metrics import TRAINING_DIFFERENCE
from harness.compare.pairs import Pair
from harness.model import Finding
from harness.probe.border.wire import Numerics

#: How far losses, and gradient norms, of the first steps may be apart, relative to the larger. bf16 has 8 bits, so one
#: rounding is 0.4 %; a norm is summed over gradients that are rounded each.
LOSS_TOLERANCE, NORM_TOLERANCE = 0.02, 0.05

#: Of learning rates: a schedule that counts its steps from another one on differs by its slope, by much where it warms up.
RATE_TOLERANCE = 0.01

#: Below this a loss, or a gradient norm, counts as zero, and has no relative error.
_NEAR_ZERO = 1e-3


def judge(pair: Pair) -> list[Finding]:
    """A finding for each model whose losses, gradient norms or learning rates are further from the baseline's than their
    tolerance."""
    if pair.base is None or pair.is_baseline:
        return []
    base = dict(pair.base.trained)
    found = [_judged(pair, model, mine, base[model]) for model, mine in pair.own.trained if model in base]
    return list(filter(None, found))


class _Quantity(NamedTuple):
    name: str
    names: str  #: of several
    own: Sequence[float | None]  #: by step
    base: Sequence[float | None]
    tolerance: float
    near_zero: float
    where: str = ""

    @property
    def apart(self) -> float:
        """In tolerances, where it is most."""
        return self._most()[0]

    @property
    def text(self) -> str:
        """``the gradient norm of step 2 is 4.8, was 1.2 (15.0 tolerances)``"""
        apart, step, own, other = self._most()
        return f"the {self.name} of step {step} is {own:.4g}{self.where}, was {other:.4g} ({apart:.1f} tolerances)"

    def _most(self) -> tuple[float, int, float, float]:
        """How far apart, at which step, and both values there."""
        most = 0.0, 0, 0.0, 0.0
        for step, (own, other) in enumerate(zip(self.own, self.base, strict=False), 1):
            if own is None or other is None or own == other or not math.isfinite(own - other):
                continue
            apart = abs(own - other) / (self.tolerance * max(abs(own), abs(other), self.near_zero))
            if apart > most[0]:
                most = apart, step, own, other
        return most


def _judged(pair: Pair, model: str, mine: Numerics, base: Numerics) -> Finding | None:
    quantities = list(_quantities(mine, base))
    worst = max(quantities, key=lambda quantity: quantity.apart)
    if worst.apart <= 1:
        return None
    return pair.finding(
        metric=TRAINING_DIFFERENCE.name,
        phase=TRAINING_DIFFERENCE.finding_phase,
        kind="regression",
        value=worst.apart,
        baseline_value=0.0,
        ratio=None,
        unit=TRAINING_DIFFERENCE.unit,
        significant=True,
        relevant=True,
        message=of_model(model, f"it trains otherwise than the baseline: {worst.text}, rank 0"),
        rank=0,
        evidence=tuple(
            of_model(
                model, f"{quantity.names}{quantity.where} {listed(quantity.own)}; baseline {listed(quantity.base)}"
            )
            for quantity in quantities
            if any(quantity.own)
        ),
    )


def _quantities(mine: Numerics, base: Numerics) -> Iterator[_Quantity]:
    if any(finite_pairs(mine.true_gradient_norms, base.true_gradient_norms)):
        norms = mine.true_gradient_norms, base.true_gradient_norms
        yield _Quantity("gradient norm", "gradient norms", *norms, NORM_TOLERANCE, _NEAR_ZERO, " in plain PyTorch")
    else:
        yield _Quantity("loss", "losses", mine.losses, base.losses, LOSS_TOLERANCE, _NEAR_ZERO)
        yield _Quantity(
            "gradient norm", "gradient norms", mine.gradient_norms, base.gradient_norms, NORM_TOLERANCE, _NEAR_ZERO
        )
    yield _Quantity("learning rate", "learning rates", _highest(mine), _highest(base), RATE_TOLERANCE, 0.0)


def _highest(numbers: Numerics) -> list[float | None]:
    """The highest learning rate of each step."""
    return [max(rates, default=None) for rates in numbers.learning_rates]
