"""Waiting for other processes."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

from tests.offline.project import LIMIT_S


def until(holds: Callable[[], object], limit_s: float = LIMIT_S) -> None:
    """Wait for what no descriptor reports, as that other processes have started others."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.02)


@contextlib.contextmanager
def killed_after(process: subprocess.Popen[str], limit_s: float) -> Iterator[None]:
    """Kill a process after that time, so that its reader comes to an end."""
    limit = threading.Timer(limit_s, process.kill)
    limit.start()
    try:
        yield
    finally:
        limit.cancel()


def heard(process: subprocess.Popen[str], words: str, limit_s: float = LIMIT_S) -> str:
    """What a command prints to its standard error up to the line with these words. One that prints no such line in time is
    killed."""
    assert process.stderr is not None
    printed = ""
    with killed_after(process, limit_s):
        for line in process.stderr:
            printed += line
            if words in printed:
                return printed
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
