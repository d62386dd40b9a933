"""Scheduling of ranks on shared cores, so that step time scatters less: sched(7), Linux only, no privilege needed.

On other systems, and if a container forbids it, these have no effect.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys

#: sched_setattr(2) and sched_getattr(2), which have no functions in the C library, by processor.
_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}

#: Shorter than the kernel's own, which is 0.7 ms for one core and longer for more.
_SHORT_TURN_NS = 500_000


class _SchedulingAttributes(ctypes.Structure):
    """``struct sched_attr``."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("turn_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def finish_turns() -> None:
    """Let threads of this process, and of those that it starts, keep a core until their turn is over.

    By default, a thread that wakes up preempts one that computes. Ranks over gloo wake each other's threads a thousand
    times a step: as batch jobs they need half the time, and their steps scatter by a third (docs/benchmarks.md).
    """
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def keep_to_own_cores(number: int, of: int) -> None:
    """Give all threads of this process a share of the cores that no other has: the process is number ``number``, from 0,
    ``of`` so many. No effect if there are more processes than cores."""
    with contextlib.suppress(OSError, AttributeError):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < of:
            return
        own = cores[number * len(cores) // of : (number + 1) * len(cores) // of]
        for thread in os.listdir("/proc/self/task"):
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.sched_setaffinity(int(thread), own)


def take_short_turns() -> None:
    """Let all threads of this process, and those that they start, take turns of half a millisecond.

    A thread that wakes up then preempts another process's, whose turns are longer, instead of waiting until that has had
    its turn (EEVDF, Linux 6.12 and later). The threads get no more of a core than before.

    Ranks over gloo wait for each other's threads a thousand times a step: in competition with four busy processes on two
    cores, a step then takes less than half the time. On an idle machine they preempt each other, and a step takes a
    fifth longer than with `finish_turns` (docs/benchmarks.md).
    """
    calls = _CALLS.get(platform.machine())
    if calls is None or sys.platform != "linux":
        return
    set_attributes, get_attributes = calls
    size = ctypes.sizeof(_SchedulingAttributes)
    with contextlib.suppress(OSError, AttributeError):
        call = ctypes.CDLL(None).syscall
        for thread in map(int, os.listdir("/proc/self/task")):
            had, has = _SchedulingAttributes(), _SchedulingAttributes()
            if call(get_attributes, thread, ctypes.byref(had), size, 0) != 0:
                continue  # it has ended meanwhile, or a container forbids it
            short = _SchedulingAttributes.from_buffer_copy(had)
            short.policy, short.turn_ns = os.SCHED_OTHER, _SHORT_TURN_NS
            call(set_attributes, thread, ctypes.byref(short), 0)
            call(get_attributes, thread, ctypes.byref(has), size, 0)
            if has.turn_ns != _SHORT_TURN_NS:  # an older kernel took the policy alone
                call(set_attributes, thread, ctypes.byref(had), 0)
