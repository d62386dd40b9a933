"""Processes of other ranks end with the one that needs them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dsregress.programs.world import peer_ranks


def test_they_end_though_a_process_that_the_program_forked_lives_on(tmp_path: Path) -> None:
    began = time.monotonic()
    with peer_ranks.peer_messages(tmp_path, 0, lambda rank, messages: None):
        worker = os.fork()  # as a data loader's, which has what its parent has opened
        if not worker:
            time.sleep(30)
            os._exit(0)
    assert time.monotonic() - began < 20
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
