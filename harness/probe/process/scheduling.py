"""How the kernel shares the cores between ranks, so that step time scatters less: sched(7), Linux only, no privilege needed.

Elsewhere, and where a container forbids it, these have no effect.
"""

from __future__ import annotations

import contextlib
import os


def finish_turns() -> None:
    """From now on, threads of this process, and of those that it starts, keep a core until their turn is over.

    As usual, a thread that wakes up preempts one that computes. Ranks over gloo wake each other's threads a thousand times
    a step: as batch jobs they need half the time, and their steps scatter by a third (docs/benchmarks.md).
    """
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def keep_to_own_cores(number: int, of: int) -> None:
    """Gives all threads of this process a share of the cores that no other has: it is number ``number``, from 0, of so many
    processes. No effect where there are more processes than cores."""
    with contextlib.suppress(OSError, AttributeError):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < of:
            return
        own = cores[number * len(cores) // of : (number + 1) * len(cores) // of]
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread), own)
