"""DeepSpeed's CPU accelerator with another device: ``meta``.

Only the CPU accelerator's methods all work without hardware. It claims to be synchronous; a GPU is not, so streams and
events are those of a simulated card. Methods that are not overridden here are inherited from the release's own class, so no
code here depends on the release.
"""

from __future__ import annotations

from typing import Any

import torch

from vgpu.sim import streams


def meta_accelerator(pin_memory: Any, empty_cache: Any, *, has_streams: bool) -> object:
    """Return an accelerator object for ``deepspeed.accelerator.set_accelerator``. ``pin_memory`` makes the pinned copy of a
    host tensor, ``empty_cache`` notes that the allocator's cache was emptied; without streams the accelerator is as
    synchronous as a CPU. Import DeepSpeed first."""
    from deepspeed.accelerator.cpu_accelerator import CPU_Accelerator

    class MetaAccelerator(CPU_Accelerator):  # type: ignore[misc, no-any-unimported, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self._name = "meta"
            self._communication_backend_name = "fake"

        def device_name(self, device_index: object = None) -> str:
            return "meta"

        def current_device_name(self) -> str:
            return "meta"

        def current_device(self) -> str:
            return "meta"

        def device(self, device_index: object = None) -> Any:
            return torch.device("meta")

        def device_count(self) -> int:
            return 8

        def is_bf16_supported(self) -> bool:
            return True

        def is_fp16_supported(self) -> bool:
            return True

        def supported_dtypes(self) -> object:
            return [torch.float, torch.half, torch.bfloat16]

        def pin_memory(self, tensor: torch.Tensor, align_bytes: int = 1) -> torch.Tensor:
            return pin_memory(tensor)  # type: ignore[no-any-return]

        def empty_cache(self) -> None:
            empty_cache()

        def is_pinned(self, tensor: torch.Tensor) -> bool:
            """Return True for any host tensor."""
            return tensor.device.type == "cpu"

        def on_accelerator(self, tensor: torch.Tensor) -> bool:
            return tensor.device.type == "meta"

        # A memory that is never short; the figures that count are the meter's.
        def memory_allocated(self, device_index: object = None) -> int:
            return 0

        max_memory_allocated = memory_cached = max_memory_cached = memory_allocated
        memory_reserved = max_memory_reserved = memory_allocated

        def memory_stats(self, device_index: object = None) -> object:
            return {}

        def total_memory(self, device_index: object = None) -> int:
            """Return an amount that is never short, in bytes."""
            return 1 << 60

        available_memory = total_memory

    class AsynchronousAccelerator(MetaAccelerator):
        Stream = streams.Stream
        Event = streams.Event

        def is_synchronized_device(self) -> bool:
            return False

        def use_host_timers(self) -> bool:
            return True

        def stream(self, stream: object) -> Any:
            return streams.StreamContext(stream)

        def set_stream(self, stream: object) -> None:
            streams.set_stream(stream)

        def current_stream(self, device_index: object = None) -> object:
            return streams.current_stream()

        def default_stream(self, device_index: object = None) -> object:
            return streams.default_stream()

        def synchronize(self, device_index: object = None) -> None:
            streams.synchronize()

    return AsynchronousAccelerator() if has_streams else MetaAccelerator()
