"""Counts that grow from step to step, of a program that runs on. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import msgspec

from dsregress.probe.border.wire import RankRecord, RunRecord

#: First steps whose growth is left out: caches fill.
_FIRST = 2

#: Fewest further steps that tell growth from a cache that fills once.
_FEWEST = 6


class StepGrowth(msgspec.Struct, frozen=True):
    """By how much each step adds to what lives, as a rule, on the worst rank; None where that is not known."""

    objects: float | None = None
    tensor_bytes: float | None = None
    resident_bytes: float | None = None


def growth(counts: Sequence[int]) -> float | None:
    """Return the objects that are added by a step, as a rule; 0 if steps add none. None if there are too few steps."""
    added = [after - before for before, after in pairwise(counts[_FIRST:])]
    if len(added) < _FEWEST:
        return None
    return float(median(added)) if sum(one <= 0 for one in added) <= 1 else 0.0


def step_growth(record: RunRecord) -> StepGrowth:
    """Return by how much each step of a program that ran on adds to what lives."""
    return StepGrowth(
        objects=_of_worst([rank.live_objects for rank in record.ranks]),
        tensor_bytes=_of_worst([rank.live_tensor_bytes for rank in record.ranks]),
        resident_bytes=_of_worst([_beyond_tensors(rank) for rank in record.ranks]),
    )


def _of_worst(by_rank: Sequence[Sequence[int]]) -> float | None:
    return max((one for counts in by_rank if (one := growth(counts)) is not None), default=None)


def _beyond_tensors(rank: RankRecord) -> list[int]:
    """Return the bytes of the process without those of its tensors, which in CPU ranks are its own as well."""
    tensors = rank.live_tensor_bytes or [0] * len(rank.resident_bytes)
    return [resident - held for resident, held in zip(rank.resident_bytes, tensors, strict=False)]
