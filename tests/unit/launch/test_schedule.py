"""Who runs when."""

from __future__ import annotations

from dsregress.launch import schedule
from dsregress.launch.contract import Ended, RunPlan, Worker
from dsregress.launch.fake import FakeExecutor, passes
from dsregress.model import Cell, Failed
from tests.builders.cells import cell, environment


def members(executor: FakeExecutor, *versions: str) -> list[tuple[Cell, Worker]]:
    return [(cell(version), executor.worker(environment(version), "cpu", "f")) for version in versions]


def test_rounds_take_turns_and_the_first_one_rotates() -> None:
    executor = FakeExecutor()
    events = list(schedule.interleave(members(executor, "A", "B", "C"), RunPlan(warmup_rounds=1, rounds=2)))
    assert executor.log == [
        *("start s/base B:cpu", "start s/base A:cpu", "start s/base C:cpu"),
        *("round A:cpu", "round B:cpu", "round C:cpu"),
        *("round B:cpu", "round C:cpu", "round A:cpu"),
        *("round C:cpu", "round A:cpu", "round B:cpu"),
    ]
    finished = [event.cell.stack.label for event in events if isinstance(event, schedule.Finished)]
    assert finished == ["C", "A", "B"]


def test_the_baseline_starts_in_the_middle_where_it_is_neither_the_slowest_nor_the_fastest() -> None:
    executor = FakeExecutor()
    list(schedule.interleave(members(executor, "A", "B", "C", "D", "E"), RunPlan(warmup_rounds=0, rounds=0)))
    assert [line.removeprefix("start s/base ") for line in executor.log] == [
        "B:cpu",
        "C:cpu",
        "A:cpu",
        "D:cpu",
        "E:cpu",
    ]
    assert schedule.baseline_in_the_middle("A") == ["A"]
    assert schedule.baseline_in_the_middle("AB") == ["A", "B"]


def test_a_cell_that_fails_leaves_the_others_their_rounds() -> None:
    failed = Ended(outcome=Failed(stage="backward", signature="x"))
    executor = FakeExecutor(lambda cell: failed if cell.stack.label == "B" else passes(cell))
    events = list(schedule.interleave(members(executor, "A", "B", "C"), RunPlan(warmup_rounds=0, rounds=1)))
    assert executor.log[3:] == ["round A:cpu", "round C:cpu"]
    assert [e.cell.stack.label for e in events if isinstance(e, schedule.Finished)] == ["B", "A", "C"]


def test_without_rounds_the_untimed_part_is_all() -> None:
    executor = FakeExecutor()
    events = list(schedule.interleave(members(executor, "A", "B"), RunPlan(warmup_rounds=0, rounds=0)))
    assert executor.log == ["start s/base A:cpu", "start s/base B:cpu"]
    assert len(events) == 4


def test_workers_are_opened_a_few_ahead() -> None:
    executor = FakeExecutor()
    schedule.open_all([worker for _, worker in members(executor, "A", "B", "C")], at_once=2)
    assert executor.log == ["open A:cpu", "open B:cpu", "open C:cpu"]
