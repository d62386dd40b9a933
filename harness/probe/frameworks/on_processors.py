"""What is replaced in DeepSpeed, and in the packages around it, where ranks meet on processors.

Each replacement lasts as long as its block. Nothing stays in the process, be it a server's or a test's.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from harness.probe import intel_packages
from harness.probe.replacing import Patches, item

_SHARED_MEMORY = "deepspeed_shm_comm"


def preload_deepspeed() -> None:
    """Import DeepSpeed, which then finds out once, for all ranks, which of its operators it can build."""
    intel_packages.import_deepspeed()
    import deepspeed

    assert deepspeed.ops.__compatible_ops__ is not None


@contextlib.contextmanager
def without_shared_memory() -> Iterator[None]:
    """From DeepSpeed 0.14.3 on, init_distributed compiles an all-reduce in shared memory, for 40 s, which no training step
    uses. Not inside, where DeepSpeed was imported before."""
    deepspeed = sys.modules.get("deepspeed")
    if deepspeed is None:
        yield
        return
    with item(deepspeed.ops.__compatible_ops__, _SHARED_MEMORY, False):
        yield


@contextlib.contextmanager
def joined_ranks(parameters: Mapping[str, Any], device: str) -> Iterator[None]:
    """Keep the order of collectives over gloo; and in ``cpu`` have DeepSpeed take fp16, which it refuses where the processor
    has no instructions for it. torch computes it there all the same, only slower, and scaling and overflow are the same
    code."""
    from deepspeed.accelerator import get_accelerator
    from torch.distributed import distributed_c10d

    from harness.probe.process.ordered_gloo import OrderedGloo

    with Patches() as patches:
        patches.replace(distributed_c10d, "ProcessGroupGloo", OrderedGloo)
        if parameters.get("dtype") == "fp16" and device == "cpu":
            patches.replace(type(get_accelerator()), "is_fp16_supported", lambda self: True)
        yield


@contextlib.contextmanager
def accelerated() -> Iterator[None]:
    """accelerate and transformers take DeepSpeed's ranks for GPUs. With these two answers they take gloo's as they are:
    the ranks are several, and bf16 is something that they can do."""
    import transformers.training_args
    from accelerate import state
    from accelerate.utils import DistributedType

    with Patches() as patches:
        patches.replace(state.PartialState, "_prepare_backend", lambda *_, **__: ("gloo", DistributedType.MULTI_CPU))
        patches.replace(transformers.training_args, "is_torch_bf16_gpu_available", lambda: True)
        yield
