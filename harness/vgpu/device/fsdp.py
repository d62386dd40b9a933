"""FSDP1 on CPU ranks and in sim, where the memory of its weights is not a GPU's.

On CPU ranks ``offload_to_cpu`` copies the gathered weights to the host, and frees them on the card. On a CPU both are one
memory, and torch reads what it has freed (a segmentation fault, on gloo ranks in plain Python too). Nothing has to move.

In sim a storage has no address, by which FSDP1 tells whether its weights are gathered and whose storage a parameter has:
its size and its identity tell the same.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

import torch

from vgpu.replacing import Patches


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Make FSDP1's move of gathered weights to the host do nothing within the block."""
    handles: Any = importlib.import_module("torch.distributed.fsdp._runtime_utils")

    def to_cpu(handle: object) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    with Patches("weights stay where they are") as patches:
        patches.replace(handles.FlatParamHandle, "to_cpu", to_cpu)
        yield


@contextlib.contextmanager
def in_simulation() -> Iterator[None]:
    """Make FSDP1 tell storages apart without addresses within the block."""
    utils: Any = importlib.import_module("torch.distributed.utils")
    handles: Any = importlib.import_module("torch.distributed.fsdp._flat_param")

    def _data_ptr_allocated(tensor: torch.Tensor) -> bool:
        return tensor.untyped_storage().nbytes() > 0

    def _same_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
        return bool(_local(a).untyped_storage()._cdata == _local(b).untyped_storage()._cdata)

    with Patches("a storage in sim has no address") as patches:
        patches.definition(utils, "_data_ptr_allocated", _data_ptr_allocated)
        patches.definition(handles, "_same_storage", _same_storage)
        yield


def _local(tensor: object) -> torch.Tensor:
    """Return the tensor inside a DTensor, or the tensor itself."""
    inner: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return inner
