"""How a stand-in launches what would be one kernel: it counts once, and allocates nothing itself.

In cpu mode torch computes the kernel's result beside the meter; in sim nothing does, and what the kernel writes is unknown.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from harness.probe.virtual_gpu.card import VirtualCard


@dataclasses.dataclass(frozen=True)
class Device:
    """Where kernels run: on the card of this rank, whose operators ``meter`` counts. ``note`` gets what a reader of the
    figures has to know."""

    meter: Any
    card: VirtualCard
    computes: bool
    note: Callable[[str], None]


_attached: list[Device] = []


@contextlib.contextmanager
def on(device: Device) -> Iterator[None]:
    _attached.append(device)
    try:
        yield
    finally:
        _attached.remove(device)


def card() -> VirtualCard:
    return _device().card


@contextlib.contextmanager
def kernel(*written: torch.Tensor, launches: int = 1, flops: int = 0) -> Iterator[bool]:
    """Yields whether to compute what is ``written``, on the card or on the host; without gradient, and beside the meter."""
    device = _device()
    meter = device.meter
    before = meter.op_launches
    try:
        with torch.no_grad():
            if device.computes:
                with _disable_current_modes():
                    yield True
            else:
                for tensor in written:
                    meter.forget(tensor)
                yield False
    finally:
        meter.op_launches = before
    meter.op_launches += launches
    meter.flops += flops
    if not flops:
        meter.count_moved((*written, *written))


#: Said of the figures of a program that launched a kernel of its own.
UNKNOWN_WORK = "Triton kernels: what they compute is not counted, so FLOPs and the times made of them are without it"


def unknown_kernel(*written: torch.Tensor) -> None:
    """In sim, launches a kernel of which no more is known than what is ``written``."""
    device = _device()
    for tensor in written:
        device.meter.forget(tensor)
    device.meter.op_launches += 1
    device.note(UNKNOWN_WORK)


def values(tensor: torch.Tensor) -> torch.Tensor | None:
    """What a tensor on the card holds; None where that is unknown."""
    device = _device()
    if device.computes:
        return tensor
    contents: torch.Tensor | None = device.meter.known.contents(tensor)
    return contents


def _device() -> Device:
    if not _attached:
        raise RuntimeError("a stand-in of the harness was called outside the virtual GPU that it belongs to")
    return _attached[-1]
