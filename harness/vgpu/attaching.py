"""Emulates a CUDA device for programs in ``sim`` and on CPU ranks.

Program runners need only `attached`::

    with (
        Simulation(rank, world_size) as simulation,
        attached("meta", simulation.mode, rank=rank, world_size=world_size) as books,
    ):
        runpy.run_path("train.py", run_name="__main__")
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from vgpu import stand_ins
from vgpu.device import (
    addresses,
    autocast,
    compilers,
    cuda_api,
    deepspeed_release,
    devices,
    fsdp,
    kernels,
    launching,
    nvml,
    optimizers,
    process_groups,
    readings,
    ring_attention,
    sync_batch_norm,
)
from vgpu.device.books import Books
from vgpu.device.card import VirtualCard
from vgpu.sim import streams


@contextlib.contextmanager
def attached(
    target: str,
    meter: Any,
    card: VirtualCard = VirtualCard(),  # noqa: B008 (it is frozen)
    *,
    rank: int = 0,
    world_size: int = 1,
    ranks_per_node: int = 8,
) -> Iterator[Books]:
    """Give this process a CUDA card within the block, whose tensors live on ``target``: ``meta`` in a running `Simulation`,
    ``cpu`` in a running `TorchMeter` on real ranks.

    ``meter`` is the simulation's ``mode``, or the `TorchMeter`. Yield the card's books. All patches are undone at the end.
    Import the frameworks before entering the block.
    """
    importlib.import_module("torch._dynamo")  # makes tables of torch's functions, which must be the real ones

    per_node = min(ranks_per_node, world_size)
    books = Books(meter, card)
    ordinals = devices.Ordinals(rank % per_node, per_node)
    mapping = devices.DeviceMapping(target, ordinals, books)
    with contextlib.ExitStack() as stack:
        stack.enter_context(cuda_api.answered(card, books, ordinals))
        if target == "cpu":  # a simulation follows them itself
            stack.enter_context(streams.followed(meter.ledger))
            stack.enter_context(deepspeed_release.on_cpu())
            stack.enter_context(fsdp.on_cpu())
            stack.enter_context(ring_attention.on_cpu())
        stack.enter_context(nvml.answered(card, books, ordinals))
        stack.enter_context(compilers.eager(books.note))
        stack.enter_context(process_groups.joined_groups(target, rank, world_size))
        stack.enter_context(optimizers.chosen_as_on_cuda(target))
        stack.enter_context(autocast.with_cuda_policy(target))
        stack.enter_context(launching.on(launching.Device(meter, card, target == "cpu", books.note)))
        stack.enter_context(kernels.stubbed())
        stack.enter_context(stand_ins.provided(target))
        stack.enter_context(sync_batch_norm.allowed(target))
        stack.enter_context(readings.of_deepspeed(books.readings))
        stack.enter_context(deepspeed_release.without_shared_memory())
        if target == "meta":
            stack.enter_context(deepspeed_release.on_cuda(books))
            stack.enter_context(addresses.of_blocks(books))
            stack.enter_context(_in_simulation(meter, mapping))
        stack.enter_context(devices.mapped_everywhere(mapping))
        yield books


@contextlib.contextmanager
def _in_simulation(mode: Any, mapping: devices.DeviceMapping) -> Iterator[None]:
    before = mode.card
    mode.card = devices.InDispatch(mapping)
    try:
        yield
    finally:
        mode.card = before
