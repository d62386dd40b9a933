"""Records the norm of gradients that a program clips: after clipping it is lost.

with ClippingWatch(clipped) as watch:
    ...  # each call of `torch.nn.utils.clip_grad_norm_`, or of FSDP's method: clipped(parameters, norm)
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from vgpu.replacing import Patches

_FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"

#: Called with the parameters and what the call returned, which may be sharded.
Clipped = Callable[[Sequence[Any], Any], None]


class ClippingWatch:
    def __init__(self, clipped: Clipped) -> None:
        self._clipped = clipped
        self._patches = Patches("norms are recorded when gradients are clipped")
        self._watches_fsdp = False

    def __enter__(self) -> ClippingWatch:
        original = torch.nn.utils.clip_grad_norm_
        self._patches.everywhere(original, self._function(original), "clip_grad_norm_")
        self.look()
        return self

    def __exit__(self, *exc: object) -> None:
        self._patches.close()

    def look(self) -> None:
        """Watch FSDP's method if it has been imported, which takes a second, and is not watched yet."""
        module: Any = sys.modules.get(_FSDP)
        fsdp: Any = getattr(module, "FullyShardedDataParallel", None)
        if module is None or self._watches_fsdp:
            return
        self._watches_fsdp = True
        self._patches.has(module, "FullyShardedDataParallel")
        self._patches.replace(fsdp, "clip_grad_norm_", self._method(fsdp.clip_grad_norm_))

    def _function(self, original: Any) -> Any:
        @functools.wraps(original)
        def clip(parameters: Any, *args: object, **kwargs: object) -> Any:
            listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)  # may be a generator
            norm = original(listed, *args, **kwargs)
            self._clipped(listed, norm)
            return norm

        return clip

    def _method(self, original: Any) -> object:
        @functools.wraps(original)
        def clip(module: Any, *args: object, **kwargs: object) -> Any:
            norm = original(module, *args, **kwargs)
            self._clipped(list(module.parameters()), norm)
            return norm

        return clip
