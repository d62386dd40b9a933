"""Processor time of this process and of what it started, while that runs and after it has ended."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dsregress.system import processor_time

#: Works for a quarter of a second, then says so and waits.
WORKS = "import time\nwhile time.process_time() < 0.25: pass\nprint('done', flush=True)\ninput()"


@pytest.mark.skipif(sys.platform != "linux", reason="what still runs is counted by way of /proc")
def test_a_process_counts_while_it_runs_and_once_it_has_ended() -> None:
    before_s = processor_time.spent_s()
    with subprocess.Popen([sys.executable, "-c", WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as working:
        assert working.stdout is not None
        working.stdout.readline()
        assert processor_time.spent_s() - before_s >= 0.2
        working.communicate(b"\n")
    assert processor_time.spent_s() - before_s >= 0.2
