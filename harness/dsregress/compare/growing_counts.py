"""Counts that grow from step to step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

#: First steps whose growth is left out: caches fill.
_FIRST = 2

#: Fewest further steps that tell growth from a cache that fills once.
_FEWEST = 6


def growth(counts: Sequence[int]) -> float | None:
    """Return the objects that are added by a step, as a rule; 0 if steps add none. None if there are too few steps."""
    added = [after - before for before, after in pairwise(counts[_FIRST:])]
    if len(added) < _FEWEST:
        return None
    return float(median(added)) if sum(one <= 0 for one in added) <= 1 else 0.0
