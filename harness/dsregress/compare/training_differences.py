"""Losses, gradient norms and learning rates against the baseline's, for programs, whose true results are
unknown.

The same script, weights and data give the same numbers but for rounding, which a release may order differently. A
difference beyond that does not say which release is right. If a release draws other random weights, as it may for an
adapter, numbers differ by chance, and only a large difference counts. If plain PyTorch has trained what the program asks
for, its gradient norms are compared: whether DeepSpeed's are near them is another question, and they differ if the program
asks for something else. Its losses are not compared, because a library may divide them differently and undo it later: the
Trainer of transformers 4.51.3 does, that of 4.47.0 does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from dsregress.compare.loss_pairs import finite_pairs, finite_steps, listed, text_of_model
from dsregress.compare.metrics import TRAINING_DIFFERENCE
from dsregress.compare.model_differences import drawn_otherwise
from dsregress.compare.oracles import trains_nothing
from dsregress.compare.result_pairs import Pair
from dsregress.messages import COMMA, Message, Text, joined, message
from dsregress.model import Finding
from dsregress.probe.border.wire import Numerics

#: How far losses, and gradient norms, of the first steps may be apart, relative to the larger. bf16 has 8 bits, so one
#: rounding is 0.4 %; a norm is summed over gradients that are rounded each.
LOSS_TOLERANCE, NORM_TOLERANCE = 0.02, 0.05

#: By how much more if other random weights are trained: a gradient of few random directions is another one.
_OF_DRAWS_LOSS, _OF_DRAWS_NORM = 5, 10

#: Of learning rates: a schedule that counts its steps from another one on differs by its slope, by much where it warms up.
RATE_TOLERANCE = 0.01

#: Below this a loss, or a gradient norm, counts as zero, and has no relative error.
_NEAR_ZERO = 1e-3


def judge_training(pair: Pair, *, before_step: int | None = None) -> list[Finding]:
    """Return a finding for each model whose losses, gradient norms or learning rates are further from the baseline's than
    their tolerance; ``before_step``, losses and norms of the earlier steps alone. A baseline that trains nothing, which is a
    finding of its own, is nothing to compare with."""
    if pair.base is None or pair.is_baseline:
        return []
    base = dict(pair.base.trained)
    found = [
        _training_finding(pair, model, _first_steps(mine, before_step), _first_steps(base[model], before_step))
        for model, mine in pair.own.trained
        if model in base and not trains_nothing(base[model])
    ]
    return list(filter(None, found))


def _first_steps(numbers: Numerics, before_step: int | None) -> Numerics:
    if before_step is None:
        return numbers
    lists = ("losses", "gradient_norms", "true_losses", "true_gradient_norms")
    return replace(numbers, **{name: getattr(numbers, name)[: before_step - 1] for name in lists})


_LOSS, _NORM = message("the loss"), message("the gradient norm")


class _Quantity(NamedTuple):
    name: Message
    names: str  #: of several
    own: Sequence[float | None]  #: by step
    base: Sequence[float | None]
    tolerance: float
    near_zero: float
    is_true: bool = False  #: it is plain PyTorch's


class _StepDifference(NamedTuple):
    tolerances: float
    step: int
    own: float
    base: float


def _largest(quantity: _Quantity) -> _StepDifference:
    """Return the first of the largest differences."""
    return max(_differences(quantity), key=lambda one: one.tolerances, default=_StepDifference(0.0, 0, 0.0, 0.0))


def _differences(quantity: _Quantity) -> Iterator[_StepDifference]:
    """Yield the differences of the steps, in multiples of the tolerance."""
    for step, own, base in finite_steps(quantity.own, quantity.base):
        if own != base:
            allowed = quantity.tolerance * max(abs(own), abs(base), quantity.near_zero)
            yield _StepDifference(abs(own - base) / allowed, step, own, base)


def _first_step(quantity: _Quantity) -> int:
    """Return the first step in which the quantity is beyond its tolerance."""
    return next(one.step for one in _differences(quantity) if one.tolerances > 1)


def _norm(quantities: Sequence[_Quantity], step: int) -> _StepDifference | None:
    """Return the difference of the step's gradient norm if it exceeds its tolerance."""
    norms = (one for quantity in quantities if quantity.name == _NORM for one in _differences(quantity))
    return next((one for one in norms if one.step == step and one.tolerances > 1), None)


#: The learning rates among the quantities: a setting of the optimizer moves the first one, too.
_RATES = "learning rates"

_TRAINS_OTHERWISE = message("training differs from the baseline")


def _training_finding(pair: Pair, model: str, mine: Numerics, base: Numerics) -> Finding | None:
    quantities = list(_quantities(mine, base))
    beyond = [one for one in quantities if _largest(one).tolerances > 1]
    if not beyond:
        return None
    worst = min(beyond, key=_first_step)
    apart, tolerances = _largest(worst), max(_largest(one).tolerances for one in beyond)
    own: Text = f"{apart.own:.4g}"
    if worst.is_true:
        own = message("{value} in plain PyTorch", value=own)
    numbers = [message("{own}, was {before:.4g}", own=own, before=apart.base)]
    if worst.name == _LOSS and (norm := _norm(quantities, apart.step)) is not None:
        # A library may scale the loss that it shows, and nothing else: the gradient is what trains.
        numbers.append(message("and its gradient norm {own:.4g}, was {before:.4g}", own=norm.own, before=norm.base))
    return pair.finding(
        TRAINING_DIFFERENCE,
        kind="regression",
        value=tolerances,
        baseline_value=0.0,
        claim=_TRAINS_OTHERWISE,
        sentence=message(
            "{quantity} of step {step} is {numbers} ({tolerances:.1f} tolerances)",
            quantity=worst.name,
            step=apart.step,
            numbers=joined(COMMA, numbers),
            tolerances=tolerances,
        ),
        model=model,
        rank=0,
        before_update=worst.names != _RATES and _first_step(worst) == 1,
        evidence=tuple(text_of_model(model, _values_text(one)) for one in quantities if any(one.own)),
    )


def _values_text(quantity: _Quantity) -> str:
    where = " in plain PyTorch" if quantity.is_true else ""
    return f"{quantity.names}{where} {listed(quantity.own)}; baseline {listed(quantity.base)}"


def _quantities(mine: Numerics, base: Numerics) -> Iterator[_Quantity]:
    """Yield what is compared, a cause before what follows from it in the same step."""
    yield _Quantity(message("the learning rate"), _RATES, _highest(mine), _highest(base), RATE_TOLERANCE, 0.0)
    is_drawn = bool(drawn_otherwise(mine, base))
    of_loss = LOSS_TOLERANCE * (_OF_DRAWS_LOSS if is_drawn else 1)
    of_norm = NORM_TOLERANCE * (_OF_DRAWS_NORM if is_drawn else 1)
    are_true = any(finite_pairs(mine.true_gradient_norms, base.true_gradient_norms))
    if are_true and not (mine.is_stepwise or base.is_stepwise):
        norms = mine.true_gradient_norms, base.true_gradient_norms
        yield _Quantity(_NORM, "gradient norms", *norms, of_norm, _NEAR_ZERO, is_true=True)
    else:
        yield _Quantity(_LOSS, "losses", mine.losses, base.losses, of_loss, _NEAR_ZERO)
        yield _Quantity(_NORM, "gradient norms", mine.gradient_norms, base.gradient_norms, of_norm, _NEAR_ZERO)


def _highest(numbers: Numerics) -> list[float | None]:
    """Return the highest learning rate of each step."""
    return [max(rates, default=None) for rates in numbers.learning_rates]
