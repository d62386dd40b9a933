"""The search for the largest value that fits. Pure."""

from __future__ import annotations


class LargestFitting:
    """The largest of growing values that fits: doubles its stride while they do, then halves the gap that is left.

    Assumes that what does not fit does not fit larger either.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._fits = -1  #: the largest index that is known to fit
        self._fails = count  #: the smallest index that is known to fail; one beyond the end while none is
        self._stride = 1

    def next(self) -> int | None:
        """The index to try; None when the answer is known."""
        if self._fails - self._fits <= 1:
            return None
        if self._fails == self._count:
            return min(self._fits + self._stride, self._count - 1)
        return (self._fits + self._fails) // 2

    def record(self, index: int, fits: bool) -> None:
        """Whether the value at ``index`` fits."""
        if fits:
            self._fits = max(self._fits, index)
            self._stride *= 2
        else:
            self._fails = min(self._fails, index)
