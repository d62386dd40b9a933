"""Launching a stand-in's kernel: it counts as one launch and allocates nothing itself.

In cpu mode torch computes the kernel's result, unmetered; in sim nothing does, and the written tensors become unknown.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from vgpu.device.card import VirtualCard


@dataclasses.dataclass(frozen=True)
class Device:
    """The device that kernels run on: the card of this rank, whose operators ``meter`` counts. ``note`` gets remarks for the
    reader of the figures."""

    meter: Any
    card: VirtualCard
    computes: bool
    note: Callable[[str], None]


_attached: list[Device] = []


@contextlib.contextmanager
def on(device: Device) -> Iterator[None]:
    """Run stand-ins' kernels on ``device`` within the block."""
    _attached.append(device)
    try:
        yield
    finally:
        _attached.remove(device)


def card() -> VirtualCard:
    """Return the card that kernels run on now. Raise RuntimeError outside the virtual GPU."""
    return _current_device().card


@contextlib.contextmanager
def kernel(*written: torch.Tensor, launches: int = 1, flops: int = 0) -> Iterator[bool]:
    """Count a kernel that writes ``written``. Yield True if the block must compute them, on the card or on the host; the
    block runs without gradient and unmetered. Yield False in sim, where they become unknown."""
    device = _current_device()
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


#: Note shown when a program launched a kernel of its own.
UNKNOWN_WORK = "Triton kernels: what they compute is not counted, so FLOPs and the times made of them are without it"


def unknown_kernel(*written: torch.Tensor) -> None:
    """Launch, in sim, a kernel of which only the ``written`` tensors are known."""
    device = _current_device()
    for tensor in written:
        device.meter.forget(tensor)
    device.meter.op_launches += 1
    device.note(UNKNOWN_WORK)


def note(text: str) -> None:
    """Keep a remark for the reader of the figures, once per text."""
    _current_device().note(text)


def tensor_values(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the contents of ``tensor``, which is on the card; None if they are unknown."""
    device = _current_device()
    if device.computes:
        return tensor
    contents: torch.Tensor | None = device.meter.known.contents(tensor)
    return contents


def _current_device() -> Device:
    if not _attached:
        raise RuntimeError("a stand-in of the harness was called outside the virtual GPU that it belongs to")
    return _attached[-1]
