"""The ``cuda`` mode: real kernels on the real allocator, and their meter and stopwatch. Needs a stack; not yet run on
hardware (see ``docs/cuda.md``).

Nothing here touches a GPU until a rank, after its fork, enters `on_gpu`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import torch

from dsregress.probe.border.wire import Clocks
from dsregress.probe.gpu import boards
from vgpu.allocator.model import AllocatorSettings
from vgpu.allocator.options import spelled_options
from vgpu.figures import PhaseReading
from vgpu.meters import operators
from vgpu.meters.ledger import StorageLedger
from vgpu.meters.meter import TorchMeter


class CudaError(RuntimeError):
    """No GPU is available, or CUDA was touched before the fork."""


def processes(world_size: int, gpus: int) -> int:
    """Return how many ranks to start: one per GPU; a single one, which represents rank 0 of all, if there are fewer GPUs
    than ranks."""
    return world_size if world_size <= gpus else 1


def stubbed(world_size: int, gpus: int) -> bool:
    """Return True if one GPU represents rank 0 of a larger job: kernels and allocator are real, collectives do nothing."""
    return world_size > gpus


def assert_untouched() -> None:
    """Raise CudaError if this process has a CUDA context already: its forks could not use a GPU."""
    if torch.cuda.is_initialized():
        raise CudaError(
            "CUDA was initialised while the framework was imported, so no rank can be forked from here; "
            "look for a module that uses a torch.cuda device at import"
        )


@contextlib.contextmanager
def metered_gpu(settings: AllocatorSettings, gpus: int) -> Iterator[CudaMeter]:
    """Put this rank on its GPU (``LOCAL_RANK``), with these options of the allocator, and yield its meter. Raise
    CudaError if no GPU is visible."""
    if not gpus:
        raise CudaError("no NVIDIA GPU is visible here (NVML and CUDA_VISIBLE_DEVICES); run this cell on sim or cpu")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    options = spelled_options(settings)
    if options:
        set_allocator_options(options)
    if settings.card_bytes:
        total = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, settings.card_bytes / total))
    yield CudaMeter()


def set_allocator_options(options: str) -> None:
    """Set the allocator's options by torch's own parser, whose name has changed; later allocations follow them."""
    current = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    (current or torch.cuda.memory._set_allocator_settings)(options)


class CudaMeter(TorchMeter):
    """Device memory as torch's allocator reports it (rounded blocks, scratch memory of kernels included); host memory,
    operators, FLOPs and communication as in the other modes. A collective is counted but not waited for, because the
    memory that its thread holds is in the allocator's figures."""

    def __init__(self) -> None:
        super().__init__("cuda")

    def begin(self) -> None:
        """Begin a phase, and reset the allocator's peak."""
        super().begin()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()

    def end(self) -> PhaseReading:
        """End the phase and return its reading."""
        torch.cuda.synchronize()
        peak, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        reading = super().end()  # collects garbage
        reading.device_peak_bytes = peak
        reading.device_retained_bytes = torch.cuda.memory_allocated()
        reading.reserved_peak_bytes = reserved
        return reading

    def recorder(self, ledger: StorageLedger, framework: object, package: str) -> object:
        """Return a recorder of the device memory's holders from the allocator's own history, which is kept from now on."""
        from dsregress.probe.holders.snapshot import MOST_EVENTS, CudaSiteRecorder

        torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python", max_entries=MOST_EVENTS)
        return CudaSiteRecorder(
            ledger, framework, package, snapshot=torch.cuda.memory._snapshot, device=torch.cuda.current_device()
        )

    def _collective(
        self, func: Any, what: operators.Traits, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        self.count_collective(what, args)
        return func(*args, **kwargs)


class CudaStopwatch:
    """Implements `dsregress.probe.framework.Stopwatch` with CUDA events on the current stream: the time between two of
    them is the GPU's, including its waiting for the host if the host is slower."""

    def __init__(self, board: boards.Board | None) -> None:
        self._board = board
        self._clocks: Clocks | None = None

    def start(self) -> None:
        """Start the stopwatch."""
        torch.cuda.synchronize()

    def mark(self) -> Any:
        """Return a mark of this moment."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def stop(self) -> None:
        """Stop the stopwatch."""
        self._clocks = self._board.clocks() if self._board else None  # while the GPU still has work of this round
        torch.cuda.synchronize()

    def seconds(self, begin: Any, end: object) -> float:
        """Return the seconds between two marks."""
        return float(begin.elapsed_time(end)) / 1000

    def clocks(self) -> Clocks | None:
        """Return the clocks of the device during the rounds; None if unknown."""
        return self._clocks


def cuda_stopwatch() -> CudaStopwatch:
    """Return the stopwatch of this rank's GPU."""
    return CudaStopwatch(boards.board(int(os.environ["LOCAL_RANK"])))


@contextlib.contextmanager
def backward_on_this_thread() -> Iterator[None]:
    """Run a GPU's backward on the calling thread within the block, with the same calls in the same order: autograd runs
    it on a separate thread, which the interpreter's profiler does not see."""
    with torch.autograd.set_multithreading_enabled(False):
        yield
