"""Work of ranks that send no sign of life: a tokenizer's, a data loader's processes', an index that numpy builds. Slow, it
would else look like a hang, which is told as a fault of the release."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection
from typing import NamedTuple

from dsregress.probe.border import processes

#: How long silent ranks are observed, and how much of that time one processor must have computed. Processes that wait,
#: even those that ask again and again, compute a hundredth of it.
_OBSERVED_S = 5.0
_WORKING = 0.1

#: The same on a machine so busy that they could have run for this part of the time, and mostly had no processor.
_HELD_UP = 0.5
_WORKING_IF_HELD_UP = 0.02

#: A process with one of these open may wait for a GPU by computing.
_GPUS = ("/dev/nvidia", "/dev/kfd")


class SilentWork:
    """Observes the processor time of ranks and of whatever they have started. Without /proc, none works."""

    def __init__(self, most_s: float) -> None:
        self._most_s = min(most_s, _OBSERVED_S)
        self._before: _Time | None = None

    def reset(self) -> None:
        """End the observation: there was a sign of life."""
        self._before = None

    def observe(self, ranks: Collection[int]) -> float:
        """Begin to observe ranks, given by their processes, which are children of this one. Return how many seconds later
        to call `is_seen`; 0 if the observation is over."""
        if self._before is not None:
            return 0.0
        self._before = _time_of(ranks)
        return self._most_s

    def is_seen(self, ranks: Collection[int]) -> bool:
        """End the observation, and return True if the ranks have computed meanwhile."""
        before, self._before = self._before, None
        if before is None:
            return False
        now = _time_of(ranks)
        computed_s, waited_s = now.computed_s - before.computed_s, now.waited_s - before.waited_s
        is_held_up = computed_s + waited_s >= _HELD_UP * self._most_s
        return computed_s >= (_WORKING_IF_HELD_UP if is_held_up else _WORKING) * self._most_s


class _Time(NamedTuple):
    """The processor time of processes, and the time for which they waited for a processor."""

    computed_s: float
    waited_s: float


def _time_of(ranks: Collection[int]) -> _Time:
    """Return the time of all processes below this one, without ranks that may only wait for their GPU."""
    counted = [one.pid for one in processes.descendants() if one.pid not in ranks or not _has_gpu(one.pid)]
    return _Time(
        sum(processes.processor_s(pid, ended_children=True) for pid in counted),
        sum(map(processes.waited_for_processor_s, counted)),
    )


def _has_gpu(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith(_GPUS):
                    return True
    return False
