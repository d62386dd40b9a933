"""Requests of a process to the kernel about itself (prctl(2), Linux only; elsewhere without effect). Standard library
only."""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24

#: Each of these lets root read the memory of any process: CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_PERFMON (capabilities(7)). A
#: container's root has none of them either, as a rule.
_PRYING = (19, 21, 38)


def die_with_parent(parent: int, by: signal.Signals = signal.SIGKILL) -> None:
    """Make the kernel send this process a signal when its parent ends, even by SIGKILL. Linux only.

    Strictly, when the *thread* ends that started this process. ``parent`` is the parent's pid from before the fork. If that
    process is gone, this one exits at once.
    """
    if apply_prctl(_PR_SET_PDEATHSIG, by) and os.getppid() != parent:
        os._exit(1)


def give_up_prying() -> None:
    """Keep programs that this process executes from reading the memory and the environment of processes that forbid it, even
    as root. Linux only; no effect without the privilege."""
    for capability in _PRYING:
        apply_prctl(_PR_CAPBSET_DROP, capability)


def apply_prctl(option: int, argument: int) -> bool:
    """Return True if the kernel knows the option and applied it."""
    try:
        return ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0) == 0
    except (OSError, AttributeError):
        return False
