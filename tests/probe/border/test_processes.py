"""Which processes are a fork of another, that end with it and need no mention."""

from __future__ import annotations

import os

import pytest

from harness.probe.border import processes


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
