"""FSDP1 on CPU ranks, where the memory of its weights is not a GPU's.

``offload_to_cpu`` copies the gathered weights to the host, and frees them on the card. On a CPU both are one memory, and
torch reads what it has freed (a segmentation fault, on gloo ranks in plain Python too). Nothing has to move.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

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
