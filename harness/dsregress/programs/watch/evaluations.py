"""The invariant of evaluation: a model that evaluates drops nothing at random. It needs no reference."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules import dropout

from dsregress.programs.watch.module_calls import ModuleCalls
from dsregress.programs.watch.weight_pieces import clean_name


class Evaluations(ModuleCalls):
    """Calls of models that train, while they are in eval mode and without gradients, of one rank."""

    def __init__(self) -> None:
        self.dropping: list[str] = []  #: names of dropouts that were on in such a call
        self._models: set[int] = set()  #: identities of models that train, and of the modules that they wrap

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
            for name, part in module.named_modules()
            if isinstance(part, dropout._DropoutNd) and part.training and part.p > 0
        ]
