"""The search for the largest value that fits. Pure."""

from __future__ import annotations


class LargestFitting:
    """A search that doubles its stride while values fit, then halves the remaining gap.

    It assumes that if a value does not fit, no larger value does.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._fits = -1  #: the largest index that is known to fit
        self._fails = count  #: the smallest index that is known to fail; one beyond the end while none is
        self._stride = 1

    def next(self) -> int | None:
        """Return the index to try; None when the answer is known."""
        if self._fails - self._fits <= 1:
            return None
        if self._fails == self._count:
            return min(self._fits + self._stride, self._count - 1)
        return (self._fits + self._fails) // 2

    def record(self, index: int, fits: bool) -> None:
        """Record whether the value at ``index`` fits."""
        if fits:
            self._fits = max(self._fits, index)
            self._stride *= 2
        else:
            self._fails = min(self._fails, index)
