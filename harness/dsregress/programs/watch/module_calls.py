"""Calls of modules, all of a process's, between a begin and an end."""

from __future__ import annotations

import abc
from typing import Any

import torch
from torch.nn.modules import module as modules
from torch.utils.hooks import RemovableHandle


class ModuleCalls(abc.ABC):
    """Notice of each call of a module, before it."""

    _hook: RemovableHandle | None = None

    def begin(self) -> None:
        """Notice calls from now on."""
        self._hook = modules.register_module_forward_pre_hook(self._note_call)

    def end(self) -> None:
        """Notice none from now on."""
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    @abc.abstractmethod
    def _note_call(self, module: torch.nn.Module, inputs: Any) -> None:
        """Take note of a call."""
