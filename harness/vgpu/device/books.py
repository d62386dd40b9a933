"""The memory books of the virtual card: the meter's ledger, seen through the caching allocator, plus cuBLAS workspaces.

A program that asks ``torch.cuda`` for bytes gets those that the allocator would have handed out for what the ledger has
booked: rounded to 512 bytes, and with the remainder of a large block that is not worth splitting off (`docs/allocator.md`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Any

import torch

from vgpu.allocator import options
from vgpu.allocator.model import AllocatorSettings
from vgpu.allocator.timing import TimingRange
from vgpu.device.card import VirtualCard
from vgpu.device.readings import Readings
from vgpu.meters import operators
from vgpu.meters.ledger import DEVICE

aten = torch.ops.aten

#: Operators that run on a cuBLAS handle (`getCurrentCUDABlasHandle` in ``aten/src/ATen/cuda/CUDABlas.cpp``).
_BLAS = {
    getattr(getattr(aten, name), overload)
    for name in ("mm", "addmm", "_addmm_activation", "bmm", "baddbmm", "addmv", "mv", "dot", "vdot", "_scaled_mm")
    if hasattr(aten, name)
    for overload in getattr(aten, name).overloads()
}

#: A part of ``CUBLAS_WORKSPACE_CONFIG``: the KiB of a buffer, and how many of them.
_BUFFERS = re.compile(r":([0-9]+):([0-9]+)")


def configured_workspace_bytes(environment: Mapping[str, str], default: int) -> int:
    """Return the bytes of a cuBLAS workspace as ``CUBLAS_WORKSPACE_CONFIG`` sets them, or ``default``
    (`parseChosenWorkspaceSize` in ``aten/src/ATen/cuda/CublasHandlePool.cpp``)."""
    buffers = _BUFFERS.findall(environment.get("CUBLAS_WORKSPACE_CONFIG", ""))
    return sum(int(kib) * 1024 * int(count) for kib, count in buffers) if buffers else default


class Books:
    """The figures of one rank's card. All in bytes.

    ``meter`` is the running `TorchMeter` (in sim its `SimulationMode`). Without a trace (``trace=False``) the figures are
    the ledger's, unrounded, and nothing more is reserved.
    """

    def __init__(self, meter: Any, card: VirtualCard) -> None:
        self.card = card
        self.ledger = meter.ledger
        self._at = 0
        self._peak = 0
        self._workspaces: dict[tuple[bool, int], Any] = {}  #: by whether it is autograd's thread, and stream
        self.readings = Readings(self)
        self.notes: list[str] = []

    @functools.cached_property
    def allocator_settings(self) -> AllocatorSettings:
        """The allocator's settings, as the program's environment has them when they are first read. Options without a model
        are noted."""
        settings, unknown = options.read_options(os.environ)
        for option in unknown:
            self.note(f"the allocator's option {option} is not modelled")
        return settings

    @functools.cached_property
    def _allocator(self) -> TimingRange:
        return TimingRange(self.allocator_settings)

    def note(self, text: str) -> None:
        """Keep a remark for the reader of the figures, once per text."""
        if text not in self.notes:
            self.notes.append(text)

    # -- figures -----------------------------------------------------------------------------------------------------

    def allocated(self) -> int:
        """Return the bytes of live blocks: ``torch.cuda.memory_allocated``."""
        self._follow_ledger()
        return self._allocator.prompt.allocated_bytes if self._traced else self.ledger.live[DEVICE]

    def max_allocated(self) -> int:
        """Return the peak of `allocated` since the program last called `reset_peaks`; the meter's phases do not reset it."""
        self._follow_ledger()
        return self._allocator.prompt.usage().allocated_peak_bytes if self._traced else self._peak

    def reserved(self) -> int:
        """Return the bytes of segments taken from the card: ``torch.cuda.memory_reserved``, for a GPU that never falls
        behind the host."""
        self._follow_ledger()
        return self._allocator.prompt.reserved_bytes if self._traced else self.ledger.live[DEVICE]

    def late_reserved(self) -> int:
        """Return the upper bound of `reserved`, whatever the timing of streams."""
        self._follow_ledger()
        return self._allocator.most_reserved_bytes if self._traced else self.ledger.live[DEVICE]

    def max_reserved(self) -> int:
        """Return the peak of `reserved` since the program last called `reset_peaks`."""
        self._follow_ledger()
        return self._allocator.prompt.reserved_peak_bytes if self._traced else self._peak

    def free(self) -> int:
        """Return the bytes of the card that are not reserved, at least 0."""
        return max(0, self.card.memory_bytes - self.reserved())

    def address(self, storage: object) -> int:
        """Return the address of a storage's block on the card, as the allocator of a GPU that never falls behind the host
        gives it; 0 for one that has none."""
        entry = self.ledger.find(storage)
        if entry is None or entry.memory != DEVICE:
            return 0
        self._follow_ledger()
        return self._allocator.prompt.address(entry.serial)

    def reset_peaks(self) -> None:
        """Start the peaks of allocated and reserved bytes anew, from what is live now."""
        self._follow_ledger()
        self._allocator.reset_peak()
        self._peak = self.ledger.live[DEVICE]

    def empty_cache(self) -> None:
        """Record in the ledger that the program emptied the allocator's cache."""
        self.ledger.cache_emptied()

    def stats(self) -> dict[str, int]:
        """Return the keys of ``torch.cuda.memory_stats`` that programs read. On a card without events, freed memory is
        inactive at once, so active equals allocated."""
        allocated, reserved = self.allocated(), self.reserved()
        most, most_reserved = self.max_allocated(), self.max_reserved()
        figures = {"num_alloc_retries": 0, "num_ooms": 0, "num_sync_all_streams": 0}
        for name, now, peak in (
            ("allocated_bytes", allocated, most),
            ("active_bytes", allocated, most),
            ("requested_bytes", self.ledger.live[DEVICE], most),
            ("reserved_bytes", reserved, most_reserved),
            ("inactive_split_bytes", reserved - allocated, most_reserved - most),
        ):
            figures |= {f"{name}.all.current": now, f"{name}.all.peak": peak}
        return figures

    # -- cuBLAS ------------------------------------------------------------------------------------------------------

    def launched(self, func: torch._ops.OpOverload, args: tuple[object, ...]) -> None:
        """Book the cuBLAS workspace that operator ``func`` needs; called before each operator. The first matrix product of a
        thread on a stream takes a workspace for its cuBLAS handle, which PyTorch never frees; autograd has its own thread
        for each card, so a stream has up to two."""
        if func in _BLAS:
            on_autograd_thread = torch._C._current_graph_task_id() != -1
            handle = on_autograd_thread, self.ledger.streams.current
            if handle not in self._workspaces and any(tensor.is_meta for tensor in operators.tensors_in(args)):
                nbytes = configured_workspace_bytes(os.environ, self.card.blas_workspace_bytes)
                workspace = torch.empty(nbytes, dtype=torch.uint8, device="meta")
                self._workspaces[handle] = workspace
                self.ledger.add(workspace.untyped_storage(), DEVICE)

    def clear_workspaces(self) -> None:
        """Free the workspaces, as ``torch._C._cuda_clearCublasWorkspaces`` does: the next matrix product allocates anew."""
        self._workspaces.clear()

    # -- following the ledger ----------------------------------------------------------------------------------------

    @property
    def _traced(self) -> bool:
        return self.ledger.trace is not None

    def _follow_ledger(self) -> None:
        self.ledger.settle()
        trace = self.ledger.trace
        if trace is None:
            self._peak = max(self._peak, self.ledger.peak[DEVICE])
            return
        end = len(trace)
        for index in range(self._at, end):
            key, nbytes, memory, _ = trace[index]
            if memory == DEVICE:
                self._allocator.book(key, nbytes)
        self._at = end
