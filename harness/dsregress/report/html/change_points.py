"""Change points of a series over the releases, by ruptures' exact kernel search (PELT on a linear kernel).

Killick, Fearnhead, Eckley: Optimal detection of changepoints with a linear computational cost, 2012.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence

import numpy as np
import ruptures

#: A lone release that is off by ``d`` costs up to d * d less as a segment of its own; one limit is enough for exact values.
_EXACT_PENALTY = 0.45

#: For noisy values, in units of their noise: the usual 2 ln n of a change in the mean, and as much again for two
#: parameters (its place and its height).
_NOISY_PENALTY = 4.0


def change_points(values: Sequence[float | None], limit: float, *, exact: bool = True) -> tuple[int, ...]:
    """Return the index of the first value after each change; values that were not measured are skipped.

    ``limit`` is the smallest difference that matters, in the values' own unit. Noisy values must also differ by more than
    their noise, estimated from the differences of neighbors.
    """
    places = [at for at, value in enumerate(values) if value is not None]
    known = [float(value) for value in values if value is not None]
    if len(known) < 2 or min(known) == max(known):
        return ()
    scale, penalty = limit, _EXACT_PENALTY
    if not exact:
        scale = max(limit, _noise(known))
        penalty = _NOISY_PENALTY * math.log(max(len(known), 3))
    signal = np.asarray(known) / (scale or 1.0)
    ends = ruptures.KernelCPD(kernel="linear", min_size=1, jump=1).fit(signal).predict(pen=penalty)
    found = []
    for before, after in zip([0, *ends[:-1]], ends, strict=True):
        if before == 0:
            continue
        start = next((end for end in reversed([0, *ends]) if end < before), 0)
        jump = statistics.fmean(known[before:after]) - statistics.fmean(known[start:before])
        if abs(jump) >= limit:
            found.append(places[before])
    return tuple(found)


def _noise(known: Sequence[float]) -> float:
    """Return the standard deviation of one value, from the median difference of neighbors, which a step does not affect."""
    steps = [abs(after - before) for before, after in itertools.pairwise(known)]
    return 1.4826 * statistics.median(steps) / math.sqrt(2)
