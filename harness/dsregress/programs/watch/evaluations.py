"""The invariant of evaluation: a model that evaluates drops nothing at random. It needs no reference.

A dropout module is on if it is in training mode, and attention drops out if it is given a rate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.modules import dropout
from torch.overrides import TorchFunctionMode

from dsregress.programs.watch.module_calls import ModuleCalls, when_left
from dsregress.programs.watch.weight_pieces import clean_name, unwrapped

#: Calls in which functions are looked at: each goes through Python then.
_MOST_CALLS = 4

#: The function of attention, and the place of its rate among its arguments.
_ATTENTION, _RATE = "scaled_dot_product_attention", 4


class Evaluations(ModuleCalls):
    """Calls of models that train, while they are in eval mode and without gradients, of one rank. ``sees_functions``: look
    at the functions that they call."""

    def __init__(self, *, sees_functions: bool) -> None:
        self.dropping: list[str] = []  #: names of dropouts, or modules that drop out, in such a call
        self._models: set[int] = set()  #: identities of models that train, and of the modules that they wrap
        self._calls_left = _MOST_CALLS if sees_functions else 0

    def trains(self, model: Any) -> None:
        """Take note of a model that trains."""
        while isinstance(model, torch.nn.Module) and id(model) not in self._models:
            self._models.add(id(model))
            model = getattr(model, "module", None)

    def _note_call(self, module: torch.nn.Module, inputs: object) -> None:
        if self.dropping or module.training or torch.is_grad_enabled() or id(module) not in self._models:
            return
        self.dropping = [
            clean_name(name)
            for name, part in unwrapped(module).named_modules()
            if isinstance(part, dropout._DropoutNd) and part.training and part.p > 0
        ]
        if not self.dropping and self._calls_left > 0:
            self._calls_left -= 1
            self._look_at_functions(module)

    def _look_at_functions(self, module: torch.nn.Module) -> None:
        drops = _Drops(module)

        def looked_at() -> None:
            drops.__exit__(None, None, None)
            self.dropping = self.dropping or drops.names

        when_left(module, looked_at)
        drops.__enter__()


class _Drops(TorchFunctionMode):
    """Finds the modules within a module whose attention drops out. Other functions may do so on purpose, as Tacotron 2's
    prenet does."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.names: list[str] = []
        self._module = module

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == _ATTENTION:
            rate = kwargs.get("dropout_p", args[_RATE] if len(args) > _RATE else 0.0)
            if isinstance(rate, float) and rate > 0 and (name := self._running()) not in self.names:
                self.names.append(name)
        return func(*args, **kwargs)

    def _running(self) -> str:
        """Return the name of the innermost module whose code is running."""
        names = {id(part): clean_name(name) for name, part in unwrapped(self._module).named_modules()}
        frame = sys._getframe(2)
        while frame is not None:
            if (name := names.get(id(frame.f_locals.get("self")))) is not None:
                return name
            frame = frame.f_back  # type: ignore[assignment]
        return ""
