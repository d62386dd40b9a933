"""The first module that differs from plain PyTorch, in steps of a program that are wrong.

Each call of a model is computed again from what it was given, and from the gradients that came back for what it returned
(`truth.plain_steps`). So the first module whose values differ is where it goes wrong, in the forward or else in the
backward; what differs after it may follow from it. A tolerance is how far one rounding of all weights moves the same value,
as in `dsregress.probe.oracles.truth`, and at least one rounding of the value itself: nothing is added up over ranks here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dsregress.probe.border.wire import NO_MODULE
from dsregress.probe.oracles import truth
from dsregress.programs.truth.plain_steps import PlainSteps, WholeStep
from dsregress.programs.watch.module_values import GIVEN, RETURNED, ModuleMoment, ModuleValues

#: Modules that are named if it is one of several.
_MOST_NAMED = 3

#: What is said where no module differs.
_EQUAL = "inputs, outputs and their gradients are equal"

#: The least distance that counts, as in `truth`.
_LEAST = 1e-12


@dataclass(frozen=True)
class ModuleDifference:
    """The first one of a call."""

    at: int  #: its place in the order of the call
    module: str
    is_forward: bool
    said: str  #: what differs, and what does not
    called_from: str = ""


def first_module(steps: Sequence[WholeStep], plain: PlainSteps) -> str:
    """Return what differs first, and how; "" if that is not known. Raise NoTruth."""
    is_known = True
    for step in steps:
        true = plain.compute(step, None, watches=True).modules
        moved = [plain.compute(step, seed, watches=True).modules for seed in range(1, truth.YARDSTICKS)]
        for number, call in enumerate(step.first.calls):
            found = {}
            for rank, own in enumerate(step.ranks):
                perturbed = [one[rank][number] for one in moved]
                compared = ComparedCall(own.calls[number].modules, true[rank][number], perturbed, plain.rounding)
                is_known = is_known and compared.is_known
                if (difference := compared.first()) is not None:
                    found[rank] = difference
            if found:
                return in_words(found, len(step.ranks), call.micro_batch, step.number)
    return f"{NO_MODULE}: all {_EQUAL}" if is_known else ""


class ComparedCall:
    """One call of a model in a program, in plain PyTorch (``true``), and there with weights off by a rounding (``moved``),
    which is ``rounding`` of a value. ``is_scaled``: the program may scale all gradients alike, as for fp16."""

    def __init__(
        self,
        own: ModuleValues,
        true: ModuleValues,
        moved: Sequence[ModuleValues],
        rounding: float,
        *,
        is_scaled: bool = False,
    ) -> None:
        self._own, self._true, self._moved, self._rounding = own, true, moved, rounding
        self._is_scaled = is_scaled

    @property
    def is_known(self) -> bool:
        """Return True if the modules could be watched."""
        return not any(one.broken for one in (self._own, self._true, *self._moved))

    @property
    def first_return(self) -> int:
        """Return the place in the order of the call at which a module returns first; -1 if none does."""
        return next((at for at, moment in enumerate(self._true.moments) if moment.role == RETURNED), -1)

    def first(self) -> ModuleDifference | None:
        """Return what differs first; None if nothing does, or it is not known."""
        if not self.is_known:
            return None
        return self._of_forward() or self._of_backward()

    def _of_forward(self) -> ModuleDifference | None:
        own = {_moment_key(moment): moment for moment in self._own.moments}
        moved = [{_moment_key(moment): moment for moment in one.moments} for one in self._moved]
        for at, true in enumerate(self._true.moments):
            key = _moment_key(true)
            others = [one.get(key) for one in moved]
            if None in others:  # rounding alone decides whether it is called
                continue
            spread = [one.digests for one in others if one is not None]
            error = self._error(own[key].digests if key in own else [], true.digests, spread)
            if error > 1:
                return self._forward_difference(at, true, error)
        return None

    def _forward_difference(self, at: int, true: ModuleMoment, error: float) -> ModuleDifference:
        if true.role == RETURNED:
            said = f"its inputs are equal, its output is {_tolerances(error)}"
            return ModuleDifference(at, true.module, True, said, self._called_from(true.module, true.turn))
        said = f"its inputs are equal, what it gives {_module_words(true.module)} is {_tolerances(error)}"
        return ModuleDifference(at, true.inside, True, said, self._called_from(true.inside, None, before=at))

    def _of_backward(self) -> ModuleDifference | None:
        own = self._returns_by_place(self._own)
        moved = [self._returns_by_place(one) for one in self._moved]
        scale: float | None = None if self._is_scaled else 1.0
        for order, number in enumerate(self._true.arrived):
            places = self._places(self._true, number)
            returned = [place for place in places if place[2] == RETURNED]
            place = next(iter(returned or places))
            mine, true = own.get(place), self._true.returns[number].digest
            if mine is None or (not returned and mine[0] != places):
                continue  # another tensor there, for which less comes back
            if scale is None and mine[1] is not None and true is not None:
                scale = _scale(mine[1], true)
            if any(name == "" for name, *_ in places):
                continue  # what the model returned: its gradients are the program's
            gradient = None if mine[1] is None else torch.cat([mine[1][:-1] / (scale or 1.0), mine[1][-1:]])
            spread = [one[place][1] for one in moved if place in one]
            error = self._error([gradient], [true], [[one] for one in spread])
            if len(spread) == len(moved) and error > 1:
                return self._backward_difference(len(self._true.moments) + order, number, error)
        return None

    def _backward_difference(self, at: int, number: int, error: float) -> ModuleDifference:
        moments = [self._true.moments[moment] for moment, _ in self._true.returns[number].places]
        given = [moment for moment in moments if moment.role == GIVEN]
        inner = [one for one in given if not any(o.module.startswith(f"{one.module}.") for o in given)]
        names = list(dict.fromkeys(one.module for one in inner))
        if names:
            said = f"the gradient of its output is equal, that of its input is {_tolerances(error)}"
            named = ", ".join(names[: _MOST_NAMED - 1]) + " or " + names[-1] if len(names) > 1 else names[0]
            return ModuleDifference(at, named, False, said, inner[0].called_from)
        made = [moment for moment in moments if moment.role == RETURNED][-1]
        off = _tolerances(error)
        said = f"the gradient of what {_module_words(made.module)} returns to it is {off}, those after it are equal"
        return ModuleDifference(at, made.inside, False, said, self._called_from(made.inside, None, before=at))

    def _error(
        self,
        own: Sequence[torch.Tensor | None],
        true: Sequence[torch.Tensor | None],
        moved: Sequence[Sequence[torch.Tensor | None]],
    ) -> float:
        """Return the largest distance of tensors from the true ones, in tolerances."""
        if len(own) != len(true):
            return math.inf
        worst = 0.0
        for number, (mine, plain) in enumerate(zip(own, true)):
            if plain is None:
                continue
            if mine is None:
                return math.inf
            spread = max((_distance(one[number], plain) for one in moved if len(one) == len(true)), default=math.inf)
            size = float(plain[:-1].norm())
            tolerance = max(truth.SPREAD_FACTOR * spread, self._rounding * size, _LEAST)
            away = _distance(mine, plain)
            if away > 0 and tolerance < math.inf:
                worst = max(worst, away / tolerance)
        return worst

    def _returns_by_place(
        self, values: ModuleValues
    ) -> dict[tuple[str, int, str, int], tuple[object, torch.Tensor | None]]:
        found: dict[tuple[str, int, str, int], tuple[object, torch.Tensor | None]] = {}
        for number, one in enumerate(values.returns):
            places = self._places(values, number)
            found |= dict.fromkeys(places, (places, one.digest))
        return found

    @staticmethod
    def _places(values: ModuleValues, number: int) -> list[tuple[str, int, str, int]]:
        return [(*_moment_key(values.moments[moment]), tensor) for moment, tensor in values.returns[number].places]

    def _called_from(self, module: str, turn: int | None, before: int | None = None) -> str:
        calls = [
            one.called_from
            for one in self._true.moments[:before]
            if (one.module, one.role) == (module, GIVEN) and turn in (None, one.turn)
        ]
        return calls[-1] if calls else ""


def _moment_key(moment: ModuleMoment) -> tuple[str, int, str]:
    return moment.module, moment.turn, moment.role


def _distance(one: torch.Tensor | None, other: torch.Tensor) -> float:
    """Return the norm of the difference of two tensors, by their digests."""
    if one is None or one[-1] != other[-1]:
        return math.inf
    return float((one[:-1] - other[:-1]).norm())


def _module_words(module: str) -> str:
    return module or "the model"


def _tolerances(error: float) -> str:
    return f"{error:.3g} tolerances off" if math.isfinite(error) else "missing, or of other numbers"


def _scale(own: torch.Tensor, true: torch.Tensor) -> float:
    """Return how many times the true gradient is in the program's, by their digests; 1 if it is zero."""
    size = float(true[:-1] @ true[:-1])
    return float(own[:-1] @ true[:-1]) / size if size > 0 else 1.0


def in_words(found: dict[int, ModuleDifference], ranks: int, micro_batch: int, step: int) -> str:
    """Return in words what differs first, of what was ``found`` in one call by rank, of so many ranks."""
    first = min(found.values(), key=lambda one: one.at)
    there = [rank for rank, one in found.items() if one.at == first.at]
    parts = [_module_words(first.module), "forward" if first.is_forward else "backward"]
    parts.append(f"micro-batch {micro_batch} of step {step}")
    if ranks > 1:
        parts.append("each rank" if len(there) == ranks else f"rank {there[0]}")
    called = f"; called from {first.called_from}" if first.called_from else ""
    return f"{', '.join(parts)}: {first.said}{called}"


def module_of_weights(wrong: Sequence[str], weights: int, step: WholeStep) -> str:
    """Return, in words, the first module of a backward of which the gradient of a weight is ``wrong`` while no module's
    values are. A step has so many ``weights``."""
    if len(wrong) == weights:
        return f"{NO_MODULE}: all {_EQUAL} in step {step.number}, the gradients of all weights are not"
    last: dict[str, int] = {}
    for call in step.first.calls:
        last |= {moment.module: at for at, moment in enumerate(call.modules.moments)}
    first = max(wrong, key=lambda name: last.get(name.rpartition(".")[0], -1))
    module, _, name = first.rpartition(".")
    others = f", nor are those of {len(wrong) - 1} other weights" if len(wrong) > 1 else ""
    return f"{_module_words(module)}, step {step.number}: all {_EQUAL}, the gradient of its {name} is not{others}"
