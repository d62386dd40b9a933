"""Processor time of this process and of all that it started."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

from harness.probe.border import processes

#: Fields of /proc/PID/stat behind the name (proc(5)): time in user and in kernel mode, its own and its ended children's.
_TIMES = slice(11, 15)


def spent_s() -> float:
    """Seconds so far. What still runs counts on Linux alone."""
    ended = sum(
        used.ru_utime + used.ru_stime
        for used in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )
    ticks = 0
    for process in processes.descendants():
        with contextlib.suppress(OSError, ValueError):
            fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            ticks += sum(map(int, fields[_TIMES]))
    return ended + ticks / os.sysconf("SC_CLK_TCK")
