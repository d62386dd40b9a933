"""Work on all processors, and what is said when one of them goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
    return len(items)

try:
    print(list(bulk.in_order(killed, [[n] for n in range(5_000)])))
except ResultsError as error:
    print(error)
"""


def test_a_reading_process_that_is_killed_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "results: a process that read results was killed; free some memory and try again\n"
