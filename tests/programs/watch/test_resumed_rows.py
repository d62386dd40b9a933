"""Data with which a program goes on are found among those that the run was fed which saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress.probe.border.wire import FedBatch, FedRow, RankRecord, ResumedData
from dsregress.programs.watch import resumed_rows


def fed(*texts: str, values: bool = False) -> list[FedBatch]:
    """Micro-batches of one row, one in each step."""
    return [
        FedBatch(step=step, rows=1, length=3, values={"x": [[float(len(text))]]})
        if values
        else FedBatch(step=step, rows=1, length=3, first_rows=[FedRow(tokens=3, ids=text)])
        for step, text in enumerate(texts, 1)
    ]


def resumed(folder: Path, written: list[FedBatch], own: list[FedBatch], saved: int = 2) -> ResumedData | None:
    kept = str(folder / "kept")
    resumed_rows.keep_fed_data([RankRecord(rank=0, fed=written, saved_step=saved)], kept)
    going_on = RankRecord(rank=0, fed=own)
    resumed_rows.note_resumed_data([going_on], kept)
    return going_on.resumed


@pytest.mark.parametrize(("first", "step"), [("c", 3), ("a", 1), ("z", 0)])
def test_the_step_is_found_whose_data_are_fed(tmp_path: Path, first: str, step: int) -> None:
    assert resumed(tmp_path, fed("a", "b", "c"), fed(first, "q")) == ResumedData(step=step, due=3)


def test_data_that_every_step_is_fed_are_the_next_ones(tmp_path: Path) -> None:
    assert resumed(tmp_path, fed("a", "a", "a"), fed("a")) == ResumedData(step=3, due=3)


def test_floats_are_found_by_their_values(tmp_path: Path) -> None:
    found = resumed(tmp_path, fed("a", "bb", "ccc", values=True), fed("bb", values=True))
    assert found == ResumedData(step=2, due=3)


def test_nothing_is_known_of_a_run_that_ended_as_it_saved_or_saved_before_a_step(tmp_path: Path) -> None:
    assert resumed(tmp_path, fed("a", "b"), fed("a")) is None
    assert resumed(tmp_path, fed("a", "b"), fed("a"), saved=0) is None
    assert resumed(tmp_path, fed("", ""), fed("")) is None  # a simulation has no values
    other = RankRecord(rank=0, fed=fed("a"))
    resumed_rows.note_resumed_data([other], str(tmp_path / "absent"))
    assert other.resumed is None
