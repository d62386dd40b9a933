"""Work of ranks that send no sign of life: a tokenizer's, a data loader's processes', an index that numpy builds. Slow, it
would else look like a hang, which is told as a fault of the release."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection

from dsregress.probe.border import processes

#: How long silent ranks are observed, and how much of that time one processor must have computed. Processes that wait,
#: even those that ask again and again, compute a hundredth of it.
_OBSERVED_S = 5.0
_WORKING = 0.1

#: A process with one of these open may wait for a GPU by computing.
_GPUS = ("/dev/nvidia", "/dev/kfd")


class SilentWork:
    """Observes the processor time of ranks and of whatever they have started. Without /proc, none works."""

    def __init__(self, most_s: float) -> None:
        self._most_s = min(most_s, _OBSERVED_S)
        self._before_s: float | None = None

    def reset(self) -> None:
        """End the observation: there was a sign of life."""
        self._before_s = None

    def observe(self, ranks: Collection[int]) -> float:
        """Begin to observe ranks, given by their processes, which are children of this one. Return how many seconds later
        to call `is_seen`; 0 if the observation is over."""
        if self._before_s is not None:
            return 0.0
        self._before_s = _computed_s(ranks)
        return self._most_s

    def is_seen(self, ranks: Collection[int]) -> bool:
        """End the observation, and return True if the ranks have computed meanwhile."""
        before_s, self._before_s = self._before_s, None
        return before_s is not None and _computed_s(ranks) - before_s >= _WORKING * self._most_s


def _computed_s(ranks: Collection[int]) -> float:
    """Return the processor time of all processes below this one, without ranks that may only wait for their GPU."""
    counted = [one.pid for one in processes.descendants() if one.pid not in ranks or not _has_gpu(one.pid)]
    return sum(processes.processor_s(pid, ended_children=True) for pid in counted)


def _has_gpu(pid: int) -> bool:
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):  # closed meanwhile
                if os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith(_GPUS):
                    return True
    return False
