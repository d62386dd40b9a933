"""Who runs when."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait

from harness.launch import schedule
from harness.launch.contract import Ended, RunPlan, Worker
from harness.launch.fake import FakeExecutor, passes
from harness.model import Cell, Failed
from tests.builders.cells import cell, environment


def members(executor: FakeExecutor, *versions: str) -> list[tuple[Cell, Worker]]:
    return [(cell(version), executor.worker(environment(version), "cpu", "f")) for version in versions]


def test_rounds_take_turns_and_the_first_one_rotates() -> None:
    executor = FakeExecutor()
    events = list(schedule.interleave(members(executor, "A", "B", "C"), RunPlan(warmup_rounds=1, rounds=2)))
    assert executor.log == [
        *("start s/base A:cpu", "start s/base B:cpu", "start s/base C:cpu"),
        *("round A:cpu", "round B:cpu", "round C:cpu"),
        *("round B:cpu", "round C:cpu", "round A:cpu"),
        *("round C:cpu", "round A:cpu", "round B:cpu"),
    ]
    finished = [event.cell.stack.label for event in events if isinstance(event, schedule.Finished)]
    assert finished == ["C", "A", "B"]


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


def test_jobs_run_beside_one_another_each_on_its_own_worker() -> None:
    executor = FakeExecutor()

    def job(version: str) -> tuple[Worker, list[Cell]]:
        return executor.worker(environment(version), "sim", "f"), [cell(version, "sim")] * 2

    events = list(schedule.run_parallel([job(v) for v in "ABCDE"], at_once=3))
    assert sum(isinstance(event, schedule.Finished) for event in events) == 10
    for version in "ABCDE":
        own = [line for line in executor.log if line.endswith(f"{version}:sim")]
        assert own == [f"open {version}:sim", *[f"start s/base {version}:sim"] * 2, f"close {version}:sim"]


def test_what_needs_several_places_waits_for_them_and_is_not_overtaken() -> None:
    slots = schedule.Slots(2)
    order: list[str] = []

    def take(name: str, wanted: int) -> None:
        with slots.taken(wanted):
            order.append(name)

    with ThreadPoolExecutor() as pool, slots.taken(1):
        large = pool.submit(take, "large", 2)
        while not slots._queue:
            time.sleep(0.001)
        small = pool.submit(take, "small", 1)
        assert wait([small], timeout=0.05).not_done, "there is a free place, but whose turn it is waits for two"
    wait([large, small])
    assert order == ["large", "small"]


def test_what_needs_more_places_than_there_are_takes_them_all() -> None:
    slots = schedule.Slots(2)
    with slots.taken(4):
        pass
    with slots.taken(2):
        pass


def test_a_fault_in_a_job_reaches_who_asked() -> None:
    def broken(cell: Cell) -> Ended:
        raise RuntimeError("a fault of ours")

    executor = FakeExecutor(broken)
    jobs = [(executor.worker(environment("A"), "sim", "f"), [cell("A", "sim")])]
    try:
        list(schedule.run_parallel(jobs, at_once=2))
    except RuntimeError as error:
        assert str(error) == "a fault of ours"
    else:
        raise AssertionError("nothing was raised")
