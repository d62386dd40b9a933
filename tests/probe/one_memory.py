"""A trace of two memories, read as if they were one.

`sim` tells device and host apart, and what goes from one to the other is copied. Where both are the CPU's memory, such a
copy is not made: ``tensor.to(device)`` gives the tensor itself. So the two hold the same bytes once each copy counts as
its original, which lives as long as the last of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu.meters.ledger import NOWHERE, Event, Move


def figures(trace: Sequence[Event], moves: Sequence[Move], phases: int) -> list[tuple[int, int]]:
    """(peak, held at the end) in bytes of each phase; phases count from one."""
    original: dict[int, int] = {}
    for copy, source in moves:
        if copy and source:
            original[copy] = original.get(source, source)
    booked: dict[int, int] = {}  # bytes of each storage
    living: dict[int, int] = {}  # storages by their original
    weight: dict[int, int] = {}  # bytes by original
    live = at = 0
    peaks, ends = [0] * (phases + 1), [0] * (phases + 1)
    for storage, nbytes, memory, phase in trace:
        while at < phase:
            ends[at] = live
            at += 1
            peaks[at] = live
        if memory == NOWHERE or storage < 0:
            continue
        one = original.get(storage, storage)
        before = booked.get(storage, 0)
        booked[storage] = before + nbytes
        living[one] = living.get(one, 0) + (not before) - (not booked[storage])
        if not living[one]:
            live -= weight.pop(one, 0)
        elif one == storage and booked[storage]:
            weight[one] = weight.get(one, 0) + nbytes
            live += nbytes
        peaks[at] = max(peaks[at], live)
    for phase in range(at, phases + 1):
        ends[phase] = live
        peaks[phase] = peaks[phase] if phase == at else live
    return list(zip(peaks[1:], ends[1:]))
