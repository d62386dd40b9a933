"""Time, CPU time and memory of a process and all that it starts."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

_EVERY_S = 0.05

#: Sampling a process of half a GiB takes the kernel milliseconds, on the CPUs that are measured: at most this share of the
#: time.
_SHARE = 0.02


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a command."""

    wall_s: float
    cpu_s: float  #: user and system, of all its processes
    peak_bytes: int  #: of all its processes together, what they share counted once
    exit_code: int


def run(command: Sequence[str], environment: Mapping[str, str], folder: str) -> Cost:
    """Run a command to its end; its output is discarded."""
    before = os.times()
    begun = time.perf_counter()
    with PeakMemory() as peak:
        quiet = subprocess.DEVNULL
        done = subprocess.run(command, env=dict(environment), cwd=folder, stdout=quiet, stderr=quiet, check=False)
    wall = time.perf_counter() - begun
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(wall_s=wall, cpu_s=cpu, peak_bytes=peak.bytes, exit_code=done.returncode)


class PeakMemory:
    """The largest memory of the processes that we start within the block, sampled up to every twentieth of a second.

    Processes that we started earlier, such as a cluster or an engine, do not count.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._before = frozenset(_descendants(os.getpid()))
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="peak-memory")

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        looked_s = 0.0
        while not self._ended.wait(max(_EVERY_S, looked_s / _SHARE)):
            begun = time.thread_time()
            self.bytes = max(self.bytes, sum(map(_own_bytes, _descendants(os.getpid(), self._before))))
            looked_s = time.thread_time() - begun


def _descendants(root: int, without: frozenset[int] = frozenset()) -> list[int]:
    """Return the processes below ``root``, except those in ``without`` and their descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:  # "pid (name) state parent ...", and a name may hold anything
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):  # it has ended
                continue
    found, known = [], {root}
    for pid in sorted(parents):  # a child has a larger number than its parent, but where numbers have wrapped
        if parents[pid] in known and pid not in without:
            known.add(pid)
            found.append(pid)
    return found


def _own_bytes(pid: int) -> int:
    """Return the proportional set size: a page that n processes share counts as 1/n in each."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
