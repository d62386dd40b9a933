"""Processes that must not outlive the one that started them."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with_parent(parent: int) -> None:
    """Asks the kernel to kill this process when its parent ends, even by SIGKILL. Linux only; elsewhere no effect.

    ``parent`` is the parent's pid from before the fork. If that process is gone, this one exits at once.
    """
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(1)


def kill_group(group: int) -> None:
    """Kills a whole process group; no error where it is gone."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def kernel_out_of_memory_kills() -> int:
    """How many processes the kernel has killed for memory since boot; 0 where it does not report that."""
    try:
        with open("/proc/vmstat") as lines:
            for line in lines:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0
