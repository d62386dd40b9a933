"""Replays a whole trace of allocations and frees on a card. Standard library only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from vgpu.allocator.model import AllocatorSettings, CachingAllocator, OutOfMemoryError, Usage
from vgpu.meters.ledger import DEVICE, Event


@dataclasses.dataclass(frozen=True, kw_only=True)
class CardFull:
    """The point at which a card would have been full."""

    phase: int  #: as the ledger numbers them
    event: int  #: index in the trace
    requested_bytes: int
    reserved_bytes: int  #: by then, after everything cached went back
    allocated_bytes: int
    card_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplayResult:
    """The result of a trace on a card. After a ``failure`` there are no further phases."""

    phases: dict[int, Usage]
    retries: int  #: how often everything cached was given back to the card (`num_alloc_retries`), a stall each time
    failure: CardFull | None = None


def replay(trace: Iterable[Event], settings: AllocatorSettings, memory: int = DEVICE) -> ReplayResult:
    """Replay the events of one memory of a `vgpu.meters.ledger.StorageLedger` trace."""
    allocator = CachingAllocator(settings)
    phases: dict[int, Usage] = {}
    current: int | None = None
    for index, (key, nbytes, where, phase) in enumerate(trace):
        if phase != current:
            if current is not None:
                phases[current] = allocator.usage()
            allocator.reset_peak()
            current = phase
        if where != memory:
            continue
        try:
            allocator.book(key, nbytes)
        except OutOfMemoryError:
            phases[phase] = allocator.usage()
            failure = CardFull(
                phase=phase,
                event=index,
                requested_bytes=nbytes,
                reserved_bytes=allocator.reserved_bytes,
                allocated_bytes=allocator.allocated_bytes,
                card_bytes=settings.card_bytes or 0,
            )
            return ReplayResult(phases=phases, retries=allocator.retries, failure=failure)
    if current is not None:
        phases[current] = allocator.usage()
    return ReplayResult(phases=phases, retries=allocator.retries)
