"""torch's optimizers choose their implementation by device: on the virtual card as on CUDA, many tensors at a time."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from torch.utils import _foreach_utils

from vgpu.replacing import Patches

_OPTIMIZER = importlib.import_module("torch.optim.optimizer")  # `torch.optim` deletes its attribute


@contextlib.contextmanager
def chosen_as_on_cuda(target: str) -> Iterator[None]:
    """Add the target to the lists of devices with ``foreach`` and ``fused`` kernels within the block: torch groups tensors
    in C++, which sees the target and not ``cuda``."""
    with Patches("foreach and fused kernels as on a GPU") as patches:
        for name in ("_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices"):
            original: Any = getattr(_foreach_utils, name)
            devices = [*original(), *({target} - {*original()})]
            for module in (_foreach_utils, _OPTIMIZER):
                patches.replace(module, name, lambda devices=devices: list(devices))
        yield
