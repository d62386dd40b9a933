"""The course of a figure over time, in few points. Standard library only."""

from __future__ import annotations

#: Slices of a phase, each with two points: its minimum and its maximum.
_SLICES = 60


def envelope(total: list[int], begin: int, end: int) -> list[list[int]]:
    """Return [position in thousandths, bytes]: the minimum and the maximum of each slice, in their order in time."""
    count = end - begin + 1
    slices = min(_SLICES, count)
    points: list[list[int]] = []
    for number in range(slices):
        part = range(begin + count * number // slices, begin + count * (number + 1) // slices)
        low, high = min(part, key=total.__getitem__), max(part, key=total.__getitem__)
        for at in sorted({low, high}):
            points.append([(at - begin) * 1000 // max(1, count - 1), total[at]])
    last = [1000, total[end]]
    return points if points[-1] == last else [*points, last]
