"""Waiting for other processes."""

from __future__ import annotations

import os
import select
import subprocess
import threading
import time

from tests.offline.project import LIMIT_S


def until(holds: object) -> None:
    """Wait for what no descriptor tells of: that other processes have started others."""
    assert callable(holds)
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def heard(process: subprocess.Popen[str], words: str, limit_s: float = LIMIT_S) -> str:
    """What a command prints to its standard error up to the line with these words. One that prints no such line in time is
    killed."""
    assert process.stderr is not None
    limit = threading.Timer(limit_s, process.kill)
    limit.start()
    try:
        printed = ""
        for line in process.stderr:
            printed += line
            if words in printed:
                return printed
    finally:
        limit.cancel()
    raise AssertionError(f"it ended before it printed {words!r}: {printed}")


def gone(pids: list[int]) -> bool:
    """Whether these processes, which may be nobody's children any more, end within seconds."""
    deadline = time.monotonic() + 10
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([handle], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
        finally:
            os.close(handle)
    return True
