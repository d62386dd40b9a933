"""How processes share the cores."""

from __future__ import annotations

import os
import sys
import threading

import pytest

from harness.probe.process import scheduling
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
