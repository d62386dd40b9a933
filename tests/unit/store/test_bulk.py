"""Work on all processors, and what is said when one of them goes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dsregress.store import bulk
from tests.paths import ROOT

#: In a process of its own: beside threads, such as other tests may leave, the work is done without processes.
PROGRAM = """
import os, signal
from dsregress.errors import ResultsError
from dsregress.store import bulk

parent = os.getpid()
os.sched_getaffinity = lambda _: {0, 1}

def killed(items):  # as the kernel does where memory is short
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes(len(items))

try:
    print(list(bulk.map_families(killed, [[n] for n in range(5_000)])))
except ResultsError as error:
    print(error)
"""


def test_a_reading_process_that_is_killed_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "results: a process that read results was killed; free memory and try again\n"


#: Goes through all of it once, and stops early once.
ORDERED = """
import os
from dsregress.store import bulk

os.sched_getaffinity = lambda _: {0, 1}

def descriptors():  # with what each is: a number alone would not say which stayed
    found = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            found[number] = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:  # that of the listing itself
            pass
    return found

def items(batch):
    return os.getpid(), batch

families = [[n, -n] for n in range(5_000)]
before = descriptors()
parts = list(bulk.map_families(items, families))
assert os.getpid() not in {process for process, _ in parts}
assert [n for _, batch in parts for n in batch] == [n for family in families for n in family]
for _, batch in bulk.map_families(items, families):
    assert batch[:4] == [0, 0, 1, -1]
    break
assert descriptors() == before, (descriptors(), before)
print("well")
"""


def test_what_processes_return_comes_in_order_and_nothing_of_them_stays() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORDERED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "well\n")


def test_work_is_done_where_no_system_call_says_which_processors_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)  # as on macOS
    assert list(bulk.map_families(sum, [[1], [2, 3]])) == [6]
