"""Processes that must not outlive the one that answers for them.

Two means of the kernel (prctl(2), Linux only; elsewhere without effect): a process may request to be killed when its parent
ends, and it may become a *subreaper*, to which every descendant is handed when its own parent ends, even one that has left
its process group or session. So a subreaper can find every process that was started below it and still exists.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from vgpu.process_control import apply_prctl

_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36

#: Time for processes to notice the end of the one that started them and to end too, before they are killed and reported.
GRACE_S = 0.5

#: Time for killed processes to end: the kernel may have to finish their input and output.
_KILLED_S = 5.0

#: Scans in a row without a marked process after which none is left. Some scans miss one that forks and exits at once.
_EMPTY_SCANS = 3


@dataclass(frozen=True)
class Process:
    """A running process. ``started`` (clock ticks since boot) distinguishes it from an earlier one with its pid."""

    pid: int
    started: int
    parent: int
    group: int
    session: int
    name: str
    state: str

    @property
    def identity(self) -> tuple[int, int]:
        """The pid and the start time, which no other process since boot shares."""
        return self.pid, self.started


def become_subreaper() -> None:
    """Make orphans among the descendants of this process its children from now on. Linux only."""
    apply_prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Forbid other processes of the same user to read the memory and the environment of this one: the processes that we
    start must not find the caller's secrets in ``/proc``. Linux only; a program that this process executes is not hidden."""
    apply_prctl(_PR_SET_DUMPABLE, 0)


def kill_group(group: int) -> None:
    """Kill a whole process group; no error if it is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def descendants(child: Callable[[Process], None] = lambda process: None) -> list[Process]:
    """Return all descendants of this process that have not been reaped. Empty without ``/proc``.

    ``child`` is called with each child as soon as it is seen, the newest first.
    """
    if not _has_children():
        return []
    children: dict[int, list[Process]] = {}
    for process in _all():
        if process.parent == os.getpid():
            child(process)
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    parents = [os.getpid()]
    while parents:
        below = children.pop(parents.pop(), [])
        found += below
        parents += [process.pid for process in below]
    return found


def end_descendants(
    *,
    spared: Collection[tuple[int, int]] = (),
    grace_s: float = 0.0,
    silently: Callable[[Process], bool] = lambda process: False,
) -> dict[str, int]:
    """End and reap all descendants of this process, which must be a subreaper; those whose identity is ``spared`` stay.

    Those that do not end by themselves within ``grace_s`` seconds are killed until none is left, including those started
    meanwhile. Return the name of each that was killed, with how many there were, without those for which ``silently``
    returns True.
    """

    def groups() -> set[int]:
        return {os.getpgrp()} | {process.group for process in descendants() if process.identity in spared}

    def list_found(kill: Callable[[Process], None]) -> list[Process]:
        return _reaped(spared, kill)

    return _end_processes(list_found, grace_s, silently, groups)


def _end_processes(
    list_found: Callable[[Callable[[Process], None]], list[Process]],
    grace_s: float,
    silently: Callable[[Process], bool],
    list_spared_groups: Callable[[], Collection[int]],
) -> dict[str, int]:
    """End what ``list_found`` finds; the rest is as `end_descendants`. ``list_found`` returns the running processes, and
    those that ended since its last call: they may have started others before they ended, so nothing is left only if it finds
    neither. It calls its argument with each process that it sees, before the next."""
    killed: dict[tuple[int, int], str] = {}
    spared_groups = functools.cache(list_spared_groups)  # as long as nothing has to be killed, none is needed

    def kill_process(process: Process) -> None:
        if process.state in "ZX":
            return
        if process.identity not in killed:
            killed[process.identity] = "" if silently(process) else process.name
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, signal.SIGKILL)
        if process.group not in spared_groups():  # one that forks and exits escapes a signal to it alone
            kill_group(process.group)

    patient_until = time.monotonic() + grace_s
    while (found := list_found(lambda process: None)) and time.monotonic() < patient_until:
        if any(process.state not in "ZX" for process in found):
            time.sleep(0.01)
    give_up_at = time.monotonic() + _KILLED_S
    while found and time.monotonic() < give_up_at:
        for process in found:
            kill_process(process)
        if any(process.state not in "ZX" for process in found):
            time.sleep(0.002)
        found = list_found(kill_process)
    names = sorted(name for name in killed.values() if name)
    return {name: names.count(name) for name in names}


def end_marked(variable: str, is_ours: Callable[[str], bool]) -> dict[str, int]:
    """End every process whose environment has ``variable`` with a value for which ``is_ours`` returns True, whatever its
    parent: as `end_descendants`, but without reaping.

    The second net: for processes whose subreaper was itself killed. A process that has cleared its environment escapes it.
    Nothing is left if `_EMPTY_SCANS` in a row find nothing: unlike a child, an ended process of others leaves no trace.
    """
    prefix = f"{variable}=".encode()

    def list_found(kill: Callable[[Process], None]) -> list[Process]:
        marked: list[Process] = []
        for _ in range(_EMPTY_SCANS):
            for process in _all():
                if process.state not in "ZX" and _marked(process, prefix, is_ours):
                    kill(process)
                    marked.append(process)
            if marked:
                break
        return marked

    return _end_processes(list_found, GRACE_S, lambda process: False, lambda: {os.getpgrp()})


def command_of(pid: int) -> bytes:
    """Return the arguments of a process as the kernel keeps them, each ended by a zero byte; empty if it is gone."""
    return _read_proc_file(f"/proc/{pid}/cmdline")


def is_fork(process: Process, session: int, command: bytes) -> bool:
    """Return True if a process was forked from one with this session and this command (see `command_of`), and still runs
    that program. When that one is killed, its forks die with it, by themselves, but not at once. A dying process has no
    arguments any more: the kernel frees its memory first."""
    return process.session == session and command_of(process.pid) in (command, b"")


def _marked(process: Process, prefix: bytes, is_ours: Callable[[str], bool]) -> bool:
    if process.pid == os.getpid():
        return False
    values = [v for v in _read_proc_file(f"/proc/{process.pid}/environ").split(b"\0") if v.startswith(prefix)]
    return any(is_ours(os.fsdecode(value[len(prefix) :])) for value in values)


def _reaped(spared: Collection[tuple[int, int]], kill: Callable[[Process], None]) -> list[Process]:
    """Return the descendants that are not spared. Reap those that have ended and are ours to reap.

    A scan misses a process that forks and exits at once, but not its parent: an orphan is our child, and stays one until it
    is reaped here. So a scan that finds nothing, not even ended processes, is proof that nothing is left.
    """
    found = [
        process
        for process in descendants(lambda process: kill(process) if process.identity not in spared else None)
        if process.identity not in spared
    ]
    for process in found:
        if process.state in "ZX" and process.parent == os.getpid():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
    return found


def _has_children() -> bool:
    """Return True if this process has children and ``/proc`` exists. Cheap: reading all of ``/proc`` takes milliseconds."""
    if not os.path.exists("/proc/self/stat"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _all() -> Iterator[Process]:
    """Yield all processes, the newest first: those may be gone soonest."""
    try:
        pids = sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True)
    except OSError:
        return
    for pid in pids:
        process = _process(pid)
        if process is not None:
            yield process


def _process(pid: int) -> Process | None:
    """Return the process with this pid; None if it is gone."""
    before, _, after = _read_proc_file(f"/proc/{pid}/stat").rpartition(b")")
    fields = after.split()
    if len(fields) < 20:
        return None
    name = re.sub(r"[^\w.+:-]", "?", before.partition(b"(")[2].decode("utf-8", "replace"))
    return Process(
        pid=pid,
        started=int(fields[19]),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        name=name or "?",
        state=fields[0].decode(),
    )


def processor_s(pid: int, *, ended_children: bool = False) -> float:
    """Return the processor time of a process in seconds, with ``ended_children`` also that of its ended and reaped children;
    0 if it is gone, or without /proc."""
    fields = (
        _read_proc_file(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    )  # behind the name, proc(5): utime, stime, cutime, cstime
    return sum(map(int, fields[11 : 15 if ended_children else 13])) / os.sysconf("SC_CLK_TCK")


def waited_for_processor_s(pid: int) -> float:
    """Return the time for which the threads of a process could have run and had no processor, in seconds; 0 if it is gone,
    or where the kernel does not count it (``sched-stats.rst``: the second number of ``schedstat``)."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0.0
    counts = (_read_proc_file(f"/proc/{pid}/task/{thread}/schedstat").split() for thread in threads)
    return sum(int(one[1]) for one in counts if len(one) > 1) / 1e9


def _read_proc_file(file: str) -> bytes:
    try:
        with open(file, "rb") as stream:
            return stream.read()
    except OSError:
        return b""
