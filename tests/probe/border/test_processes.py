"""Which processes descend from another, and how all of them are ended, whatever they do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dsregress.probe.border import processes


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_a_fork_that_is_dying_and_has_no_arguments_any_more_is_one_still() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    (dying,) = [process for process in processes.descendants() if process.pid == pid]
    assert processes.command_of(pid) == b""
    assert processes.is_fork(dying, os.getsid(0), processes.command_of(os.getpid()))
    assert not processes.is_fork(dying, os.getsid(0) + 1, processes.command_of(os.getpid()))
    os.waitpid(pid, 0)


#: A process that forks and exits every 0.5 ms. For six seconds at most: a test that fails leaves nothing behind.
FORKER = """
import os, sys, time
end = time.monotonic() + 6
beat = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    if sys.argv[2] == "each":
        os.setsid()
    os.write(beat, b".")
    time.sleep(0.0005)
"""

#: Starts that, and ends it as a keeper does.
SUBREAPER = """
import json, os, subprocess, sys, time
from dsregress.probe.border import processes
processes.become_subreaper()
beat = sys.argv[2]
subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], start_new_session=True)
while not os.path.exists(beat) or os.path.getsize(beat) < 20:
    time.sleep(0.001)
print(json.dumps(processes.end_descendants(grace_s=0.05)))
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
@pytest.mark.parametrize("session", ["one", "each"])
def test_a_process_that_forks_and_exits_at_once_is_ended_and_named(tmp_path: Path, session: str) -> None:
    beat = tmp_path / "beat"
    command = [sys.executable, "-c", SUBREAPER, FORKER, str(beat), session]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=True, cwd=Path(__file__).parents[3]
    )
    beats = beat.stat().st_size
    time.sleep(0.1)
    assert beat.stat().st_size == beats
    (name,) = json.loads(ended.stdout)
    assert name.startswith("python")
