"""A program that waits for a thread which an error has ended, ends by that error."""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from dsregress.programs.world import ended_threads
from tests.programs.cells import ran

#: As data loaders are written whose rows a thread prepares.
FED_BY_A_THREAD = """
import queue, threading, torch

class Rows(torch.utils.data.IterableDataset):
    def __iter__(self):
        rows = queue.Queue(2)
        def fill():
            for row in ({"text": "a"}, {"text": "b"}):
                rows.put(row[NAME])
        threading.Thread(target=fill, daemon=True).start()
        while True:
            yield rows.get()

for row in torch.utils.data.DataLoader(Rows(), num_workers=1):
    print(row)
"""


@pytest.mark.usefixtures("surroundings")
def test_an_error_in_a_thread_of_a_loaders_worker_ends_the_program_by_its_name(folder: Path) -> None:
    (folder / "train.py").write_text(f"NAME = 'title'\n{FED_BY_A_THREAD}")
    record = ran(folder, "sim", 1, "train.py", timeout_s=60.0)
    assert record.outcome == "failed"
    assert record.signature.startswith("KeyError: ")
    assert "'title'" in record.log_tail


def test_a_thread_that_ends_beside_a_program_that_goes_on_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_threads, "_BETWEEN_LOOKS_S", 0.05)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    rows: queue.Queue[int] = queue.Queue()
    with ended_threads.ended_threads():
        threading.Thread(target=lambda: 1 // 0).start()
        for row in range(10):
            threading.Timer(0.05, rows.put, (row,)).start()
            assert rows.get() == row


def test_a_wait_that_has_a_limit_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_threads, "_BETWEEN_LOOKS_S", 0.05)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    with ended_threads.ended_threads():
        threading.Thread(target=lambda: 1 // 0).start()
        with pytest.raises(queue.Empty):
            queue.Queue().get(timeout=0.6)


def test_an_endless_wait_ends_by_the_error_of_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended_threads, "_BETWEEN_LOOKS_S", 0.05)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    began = time.monotonic()
    with ended_threads.ended_threads():
        threading.Thread(target=lambda: 1 // 0).start()
        with pytest.raises(ZeroDivisionError):
            queue.Queue().get()
    assert time.monotonic() - began < 5
