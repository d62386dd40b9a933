"""CPU time of this process and of all that it started."""

from __future__ import annotations

import resource

from dsregress.probe.border import processes


def spent_s() -> float:
    """Return the seconds so far. Processes that still run count only on Linux."""
    ended_s = sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )
    return ended_s + sum(processes.processor_s(each.pid, ended_children=True) for each in processes.descendants())
