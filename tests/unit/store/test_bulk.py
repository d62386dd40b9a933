"""Work on all processors, and what is said when one of them goes."""

from __future__ import annotations

import os
import signal

import pytest

from harness.errors import ResultsError
from harness.store import bulk

PARENT = os.getpid()


def _killed(items: list[int]) -> int:
    """As the kernel does where memory is short."""
    if os.getpid() != PARENT:
        os.kill(os.getpid(), signal.SIGKILL)
    return len(items)


def test_a_reading_process_that_is_killed_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(ResultsError) as caught:
        list(bulk.in_order(_killed, [[n] for n in range(5_000)]))
    assert str(caught.value) == "results: a process that read results was killed; free some memory and try again"
