"""Replacements in DeepSpeed, and in the packages around it, for ranks on CPUs.

Each replacement lasts as long as its block. Nothing stays in the process, whether a server's or a test's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from vgpu.replacing import Patches


@contextlib.contextmanager
def joined_ranks(parameters: Mapping[str, object], device: str) -> Iterator[None]:
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
