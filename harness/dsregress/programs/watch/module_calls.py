"""Calls of modules: all of a process's, between a begin and an end, and the end of one of them."""

from __future__ import annotations

import abc
import sys
from collections.abc import Callable
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


def remove_hooks(*hooks: RemovableHandle) -> None:
    """Remove hooks of modules, unless an error is on its way: torch then goes through the hooks themselves, and none may go
    away. Whoever calls it has to see that they do nothing from now on."""
    if sys.exc_info()[1] is None:
        for hook in hooks:
            hook.remove()


def when_left(
    module: torch.nn.Module,
    left: Callable[[], None] = lambda: None,
    *,
    returned: Callable[[Any, Any, Any], None] = lambda args, kwargs, out: None,
) -> None:
    """Call ``returned(args, kwargs, out)`` when a call of a module that begins has returned, and then, or after an error,
    ``left()``."""
    outer, is_over = sys.exc_info()[1], False

    def ended(_: object, args: object, kwargs: object, out: object) -> None:
        nonlocal is_over
        remove_hooks(hook)
        if is_over:
            return
        is_over = True
        if sys.exc_info()[1] is outer:
            returned(args, kwargs, out)
        left()

    hook = module.register_forward_hook(ended, with_kwargs=True, always_call=True)
