"""Other work that keeps this machine's cores busy. Linux only."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")

#: The states of a core that are no work of this machine's, by their place in a line of proc_stat(5): idle, iowait, steal,
#: and what guests did, which user and nice have already.
_NO_WORK = (3, 4, 7, 8, 9)


def busy_cores(for_s: float = 0.5, stat: Path = _STAT) -> float:
    """Return the average number of busy cores, of those that this process may use, while this call waited; 0 if the system
    does not report it. To be called while nothing of ours runs."""
    try:
        before = _worked_ticks(stat)
        time.sleep(for_s)
        ticks = _worked_ticks(stat) - before
        return ticks / os.sysconf("SC_CLK_TCK") / for_s
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0


def _worked_ticks(stat: Path) -> int:
    own = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = (line.split() for line in stat.read_text().splitlines())
    return sum(
        sum(int(ticks) for state, ticks in enumerate(states) if state not in _NO_WORK)
        for core, *states in lines
        if core in own
    )
