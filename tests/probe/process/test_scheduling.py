"""How processes share the cores."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading

import pytest

from dsregress.probe.process import scheduling
from tests.builders.forks import in_a_fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's means are Linux's")


def cores_of_all_threads() -> str:
    return " ".join(
        sorted({str(sorted(os.sched_getaffinity(int(thread)))) for thread in os.listdir("/proc/self/task")})
    )


def test_what_a_process_starts_finishes_its_turns_too() -> None:
    def answer() -> str:
        scheduling.finish_turns()
        return in_a_fork(lambda: str(os.sched_getscheduler(0)))

    assert in_a_fork(answer) == str(os.SCHED_BATCH)


def test_processes_with_a_core_for_each_share_none_and_leave_none_over() -> None:
    cores = sorted(os.sched_getaffinity(0))

    def answer(number: int) -> str:
        threading.Thread(target=threading.Event().wait, daemon=True).start()  # one that was there before
        scheduling.keep_to_own_cores(number, len(cores))
        return cores_of_all_threads()

    assert [in_a_fork(lambda number=number: answer(number)) for number in range(len(cores))] == [
        str([core]) for core in cores
    ]


def test_more_processes_than_cores_keep_all_of_them() -> None:
    cores = sorted(os.sched_getaffinity(0))

    def answer() -> str:
        scheduling.keep_to_own_cores(0, len(cores) + 1)
        return cores_of_all_threads()

    assert in_a_fork(answer) == str(cores)


def turn_ns(thread: int) -> int:
    """The kernel's ``sched_getattr`` has it at byte 24."""
    attributes = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(CALLS[platform.machine()], thread, attributes, 48, 0) == 0
    return int.from_bytes(attributes.raw[24:32], "little")


CALLS = {"x86_64": 315, "aarch64": 275}


@pytest.mark.skipif(platform.machine() not in CALLS, reason="the number of the system call is another one")
def test_all_threads_take_short_turns_and_keep_their_nice_value_and_an_older_kernel_changes_nothing() -> None:
    def answer() -> str:
        scheduling.finish_turns()
        os.nice(3)
        threading.Thread(target=threading.Event().wait, daemon=True).start()  # one that was there before
        scheduling.take_short_turns()
        threads = [*map(int, os.listdir("/proc/self/task"))]
        return str(
            sorted(
                {
                    (os.sched_getscheduler(each), os.getpriority(os.PRIO_PROCESS, each), turn_ns(each))
                    for each in threads
                }
            )
        )

    has_turns = tuple(map(int, platform.release().split(".")[:2])) >= (6, 12)
    nicer = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3)
    expected = (os.SCHED_OTHER, nicer, 500_000) if has_turns else (os.SCHED_BATCH, nicer, 0)
    assert in_a_fork(answer) == str([expected])
