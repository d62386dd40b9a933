"""Work on all processors, and what is said when one of them goes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.paths import ROOT

#: In a process of its own: beside threads, such as other tests may leave, the work is done without processes.
PROGRAM = """
import os, signal
from harness.errors import ResultsError
from harness.store import bulk

parent = os.getpid()
os.sched_getaffinity = lambda _: {0, 1}

def killed(items):  # as the kernel does where memory is short
    if os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes(len(items))

try:
    print(list(bulk.in_order(killed, [[n] for n in range(5_000)])))
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
    assert done.stdout == "results: a process that read results was killed; free some memory and try again\n"


#: Holds one part for longer than the rest, and stops early once.
SHARING = """
import os, sys
from harness.store import bulk

if "old" in sys.argv:
    del os.memfd_create
os.sched_getaffinity = lambda _: {0, 1}

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def text(items):
    return " ".join(map(str, items)).encode()

families = [[n, -n] for n in range(5_000)]
before = descriptors()
parts = list(bulk.in_order(text, families))
assert len(parts) > 1
assert b" ".join(map(bytes, parts)) == text([n for family in families for n in family])
last = parts.pop()
parts.clear()
assert descriptors() == before + 1
assert bytes(last).endswith(b"4999 -4999")
del last
for part in bulk.in_order(text, families):
    assert bytes(part).startswith(b"0 0 1 -1")
    break
del part
assert descriptors() == before
print("well")
"""


@pytest.mark.parametrize("python", ["new", "old"])
def test_what_processes_leave_comes_in_order_and_goes_with_its_last_reader(python: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHARING, python],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "well\n")
