"""What a program reads of its card is recorded with the place, and as DeepSpeed prints it."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.device import readings  # noqa: E402
from vgpu.device.books import Books  # noqa: E402

MIB = 1 << 20


def after_step() -> tuple[int, int]:
    return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()


@pytest.fixture
def printing(monkeypatch: pytest.MonkeyPatch, books: Books) -> Iterator[Any]:
    """A module that has imported ``see_memory_usage``, which reads and resets as DeepSpeed's does."""
    utils: Any = types.ModuleType("deepspeed.runtime.utils")

    def see_memory_usage(message: str, force: bool = False) -> None:
        if force:
            torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()

    user: Any = types.ModuleType("deepspeed.runtime.zero.stage3")
    utils.see_memory_usage = user.see_memory_usage = see_memory_usage
    for module in (utils, user):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    with readings.of_deepspeed(books.readings):
        yield user
    assert user.see_memory_usage is see_memory_usage


def test_a_call_is_recorded_with_its_place_and_all_figures(books: Books) -> None:
    kept = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
    books.readings.step = 2
    assert after_step() == (4 * MIB, 12 * MIB)
    first, second = books.readings.taken
    assert first.at.startswith("test_readings.py:") or "/test_readings.py:" in first.at
    assert first.at.endswith(" in after_step")
    assert (first.step, first.allocated_bytes, first.allocated_peak_bytes) == (2, 4 * MIB, 12 * MIB)
    assert (second.reserved_bytes, second.reserved_peak_bytes) == (20 * MIB, 20 * MIB)
    del kept


def test_what_deepspeed_prints_is_one_reading_before_it_resets_the_peak(books: Books, printing: Any) -> None:
    torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
    printing.see_memory_usage("not printed")
    printing.see_memory_usage("after init", force=True)
    printing.see_memory_usage("again", force=True)
    assert [(read.at, read.allocated_peak_bytes) for read in books.readings.taken] == [
        ("after init", 8 * MIB),
        ("again", 0),
    ]


def test_a_program_that_reads_without_end_does_not_fill_the_record(books: Books) -> None:
    for _ in range(readings._MOST_READINGS + 5):
        torch.cuda.memory_allocated()
    assert len(books.readings.taken) == readings._MOST_READINGS
