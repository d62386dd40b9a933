"""DeepSpeed on the virtual card: the release's own CUDA accelerator, on the façade of ``torch.cuda``; in cpu mode its CPU
accelerator, with CUDA's answers where it has none of its own."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from vgpu.device.books import Books
from vgpu.replacing import Patches, item

_SHARED_MEMORY = "deepspeed_shm_comm"


@contextlib.contextmanager
def on_cuda(books: Books) -> Iterator[None]:
    """Select the release's CUDA accelerator within the block. For sim, where the device's tensors say ``cuda``; in cpu mode
    they do not, and the CPU accelerator stays."""
    if "deepspeed" not in sys.modules:
        yield
        return
    from deepspeed.accelerator import real_accelerator
    from deepspeed.accelerator.cuda_accelerator import CUDA_Accelerator

    class VirtualAccelerator(CUDA_Accelerator):  # type: ignore[misc, no-any-unimported, unused-ignore]
        """The release's CUDA accelerator; the books replace NVML."""

        def _init_pynvml(self) -> None:
            """Do nothing: there is no driver."""

        def available_memory(self, device_index: object = None) -> int:
            return books.free()

    with Patches("DeepSpeed takes the virtual card") as patches:
        patches.replace(real_accelerator, "ds_accelerator", None)
        real_accelerator.set_accelerator(VirtualAccelerator())
        yield


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Complete DeepSpeed's CPU accelerator within the block, for cpu mode. It lacks the streams that activation
    checkpointing creates; it names its current device by text, which tensor parallelism passes to torch; on some processors
    it refuses fp16, which torch can compute; and its ``FloatTensor(1.5)``, which norms with experts call, takes no
    number."""
    if "deepspeed" not in sys.modules:
        yield
        return
    import torch
    from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator
    from deepspeed.accelerator.cuda_accelerator import CUDA_Accelerator

    with Patches("DeepSpeed's CPU accelerator is incomplete") as patches:
        for name, constructor in vars(CUDA_Accelerator).items():
            if name.endswith("Tensor"):
                patches.replace(CPU_Accelerator, name, constructor)
        patches.replace(CPU_Accelerator, "Stream", property(lambda _: lambda *args, **kwargs: torch.cuda.Stream()))
        patches.replace(CPU_Accelerator, "current_device", lambda _: torch.cuda.current_device())
        patches.replace(CPU_Accelerator, "is_fp16_supported", lambda _: True)
        patches.replace(CPU_Accelerator, "supported_dtypes", lambda _: [torch.float, torch.half, torch.bfloat16])
        yield


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
