"""Replacements in DeepSpeed, and in the packages around it, for ranks on CPUs.

Each replacement lasts as long as its block. Nothing stays in the process, whether a server's or a test's.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from dsregress.probe import intel_packages
from vgpu.replacing import Patches, item

_SHARED_MEMORY = "deepspeed_shm_comm"


def preload_deepspeed() -> None:
    """Import DeepSpeed, which then determines once, for all ranks, which of its operators it can build."""
    intel_packages.import_deepspeed()
    import deepspeed

    assert deepspeed.ops.__compatible_ops__ is not None


@contextlib.contextmanager
def without_shared_memory() -> Iterator[None]:
    """Keep ``init_distributed`` within the block from compiling an all-reduce in shared memory, if DeepSpeed was
    imported before. DeepSpeed 0.14.3 and later compile it for 40 s, and no training step uses it."""
    deepspeed = sys.modules.get("deepspeed")
    if deepspeed is None:
        yield
        return
    with item(deepspeed.ops.__compatible_ops__, _SHARED_MEMORY, False):
        yield


@contextlib.contextmanager
def joined_ranks(parameters: Mapping[str, Any], device: str) -> Iterator[None]:
    """Keep the order of collectives over gloo within the block. In ``cpu`` also let DeepSpeed accept fp16, which it
    refuses if the processor has no instructions for it: torch computes it anyway, only slower, and scaling and
    overflow are the same code."""
    from deepspeed.accelerator import get_accelerator
    from torch.distributed import distributed_c10d

    from vgpu.device.ordered_gloo import OrderedGloo

    with Patches("collectives keep their order over gloo, and fp16 is computed") as patches:
        patches.replace(distributed_c10d, "ProcessGroupGloo", OrderedGloo)
        if parameters.get("dtype") == "fp16" and device == "cpu":
            patches.replace(type(get_accelerator()), "is_fp16_supported", lambda self: True)
        yield


@contextlib.contextmanager
def accelerated() -> Iterator[None]:
    """Let accelerate and transformers accept gloo's ranks within the block: they take DeepSpeed's ranks for GPUs. The
    two replacements report that the ranks are several, and that they can compute in bf16."""
    import transformers.training_args
    from accelerate import state
    from accelerate.utils import DistributedType

    with Patches("accelerate takes gloo's ranks for GPUs") as patches:
        patches.replace(state.PartialState, "_prepare_backend", lambda *_, **__: ("gloo", DistributedType.MULTI_CPU))
        patches.replace(transformers.training_args, "is_torch_bf16_gpu_available", lambda: True)
        yield
