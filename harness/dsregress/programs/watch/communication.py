"""Communication between ranks within a block: seen, or refused, as one rank alone would wait for ever."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class RefusedCommunication(RuntimeError):
    """One rank alone would communicate."""


class CommunicationWatch(TorchDispatchMode):
    """Finds out if anything within the block communicates; if it ``refuses``, such an operator raises
    RefusedCommunication."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__()
        self.found = False
        self._refuses = refuses

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        if "c10d" in func.namespace:
            self.found = True
            if self._refuses:
                raise RefusedCommunication(f"{func} by one rank alone")
        return func(*args, **(kwargs or {}))
