"""Invariants of the steps of plain optimizers, which need no reference: a gradient is used by one step, and a step moves no
frozen weight. An engine has a truth of its own.

Weights are kept as references that do not keep them alive, and named once everything is measured.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.border.wire import FROZEN_MOVED, GRADIENTS_KEPT
from dsregress.programs.watch.still_weights import StillWeights
from dsregress.programs.watch.weight_pieces import clean_name, local_part, unwrapped

_Weights = list["weakref.ref[torch.Tensor]"]


class StepInvariants:
    """Judges the steps of the optimizers of one rank."""

    def __init__(self) -> None:
        self._waiting: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Weights] = weakref.WeakKeyDictionary()
        self._kept: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Weights] = weakref.WeakKeyDictionary()
        self._moved: weakref.WeakKeyDictionary[torch.optim.Optimizer, list[str]] = weakref.WeakKeyDictionary()
        self._frozen: StillWeights | None = None
        self._backwards = 0  #: since the last step

    def new_backward(self) -> None:
        """Forget the weights whose gradients have been set to zero since their step."""
        self._backwards += 1
        for optimizer, weights in self._waiting.items():
            self._waiting[optimizer] = [one for one in weights if _has_gradient(one())]

    def before_step(self, optimizer: torch.optim.Optimizer, whole: torch.nn.Module | None) -> None:
        """Find gradients of the last step of an optimizer among those that it steps by. ``whole``: the module that it
        trains, None if it is not known."""
        if self._backwards and (kept := self._waiting.get(optimizer)):
            self._kept[optimizer] = kept
        self._frozen = None if whole is None else StillWeights(whole, frozen=True)

    def after_step(self, optimizer: torch.optim.Optimizer, whole: torch.nn.Module | None) -> None:
        """Keep the weights by whose gradients an optimizer has stepped."""
        if whole is not None and self._frozen is not None and (moved := self._frozen.moved_names(whole)):
            self._moved[optimizer] = moved
        stepped = (one for group in optimizer.param_groups for one in group["params"] if one.requires_grad)
        self._waiting[optimizer] = [weakref.ref(one) for one in stepped if _has_gradient(one)]
        self._backwards = 0

    def broken(self, optimizer: torch.optim.Optimizer, wholes: Iterable[torch.nn.Module]) -> dict[str, list[str]]:
        """Return the invariants that steps of an optimizer broke, and the names in ``wholes`` of what shows it."""
        found = {
            GRADIENTS_KEPT: _names(self._kept.get(optimizer, []), wholes),
            FROZEN_MOVED: self._moved.get(optimizer, []),
        }
        return {invariant: names for invariant, names in found.items() if names}


def _has_gradient(weight: torch.Tensor | None) -> bool:
    """Return True if a weight has a gradient that is not zero; False where it is not known."""
    gradient = None if weight is None else weight.grad
    if gradient is None or gradient.is_sparse or gradient.is_meta:
        return False
    with _disable_current_modes():
        return bool(local_part(gradient).any())


def _names(weights: Sequence[weakref.ref[torch.Tensor]], wholes: Iterable[torch.nn.Module]) -> list[str]:
    """Return the names of weights; a number where none is known."""
    named = {id(one): clean_name(name) for whole in wholes for name, one in unwrapped(whole).named_parameters()}
    alive = [one for reference in weights if (one := reference()) is not None]
    return [named.get(id(one), str(number)) for number, one in enumerate(alive)]
