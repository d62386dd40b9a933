"""Records the norm of gradients that a program clips: after clipping it is lost.

with ClippingWatch(begins, clipped) as watch:
    ...  # each call of `torch.nn.utils.clip_grad_norm_`, or of FSDP's method: begins(parameters, limit, norm_type), and
    # clipped(parameters, norm) once it has returned
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from vgpu.replacing import Patches

_FSDP = "torch.distributed.fsdp.fully_sharded_data_parallel"

#: Called with the parameters, their greatest norm, and its order.
Begins = Callable[[Sequence[Any], float, float], None]

#: Called with the parameters and what the call returned, which may be sharded.
Clipped = Callable[[Sequence[Any], Any], None]


class ClippingWatch:
    def __init__(self, begins: Begins, clipped: Clipped) -> None:
        self._begins, self._clipped = begins, clipped
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
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            listed = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)  # may be a generator
            self._begins(listed, *_limit(*args, **kwargs))
            norm = original(listed, *args, **kwargs)
            self._clipped(listed, norm)
            return norm

        return clip

    def _method(self, original: Any) -> object:
        @functools.wraps(original)
        def clip(module: Any, *args: Any, **kwargs: Any) -> Any:
            listed = list(module.parameters())
            self._begins(listed, *_limit(*args, **kwargs))
            norm = original(module, *args, **kwargs)
            self._clipped(listed, norm)
            return norm

        return clip


def _limit(max_norm: float, norm_type: float = 2.0, **_: object) -> tuple[float, float]:
    """Return the greatest norm and its order, of the arguments of a call besides its parameters."""
    return float(max_norm), float(norm_type)
