"""Who runs where on several machines, and what a lost one costs."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path

from dsregress.cli.progress import QuietWatch
from dsregress.config.settings import Settings
from dsregress.launch import schedule
from dsregress.launch.contract import Ended, Lost
from dsregress.launch.fake import FakeCluster, passes
from dsregress.model import Cell, Environment, Failed, OutOfMemory, Passed, Result, Stack
from dsregress.run import cell_matrix
from dsregress.run.measure import MeasureContext, measure_cells
from dsregress.store import Store
from tests.builders.cells import HARDWARE, SCENARIOS, stack

VERSIONS = ("1", "2", "3")
TIMED = ("llama/base/cpu", "qwen/base/cpu")


class Seen(QuietWatch):
    """Cells that began again."""

    def __init__(self) -> None:
        self.again: list[str] = []

    def event(self, event: schedule.Event) -> None:
        if isinstance(event, schedule.Rerun):
            self.again.append(f"{event.cell.stack.label}: {event.why}")


def run(folder: Path, cluster: FakeCluster, *select: str, rounds: int = 2, watch: Seen | None = None) -> list[Result]:
    stacks: list[Stack] = [stack(version) for version in VERSIONS]
    return measure_cells(
        cell_matrix.build_matrix(stacks, SCENARIOS, cell_matrix.Selection(), select, HARDWARE),
        [Environment(stack=one, lock_sha256="l") for one in stacks],
        stacks[0],
        MeasureContext(
            hardware=HARDWARE,
            settings=Settings(rounds=rounds, warmup_rounds=0),
            executor=cluster,
            store=Store(str(folder / "results")),
            watch=watch or Seen(),
        ),
        fresh=False,
    )


def machines_of(cluster: FakeCluster, workload: str) -> set[str]:
    """The machines on which cells of a workload were begun."""
    return {line[-1] for line in cluster.log if line.startswith(f"start {workload}")}


def test_each_workload_has_a_machine_and_all_its_stacks_take_turns_there(tmp_path: Path) -> None:
    both = threading.Barrier(2, timeout=10)  # neither goes on before the other has begun

    def behaviour(cell: Cell) -> Ended:
        if cell.stack.label == "1" and not met[cell.workload]:
            met[cell.workload] += 1
            both.wait()
        return passes(cell)

    met: Counter[str] = Counter()
    cluster = FakeCluster(behaviour)
    results = run(tmp_path, cluster, *TIMED)
    assert len(results) == 6
    assert machines_of(cluster, "llama") | machines_of(cluster, "qwen") == {"0", "1"}
    for name in ("llama", "qwen"):
        (machine,) = machines_of(cluster, name)
        rounds = [line for line in cluster.log if line.startswith("round") and line.endswith(machine)]
        assert [re.sub(r"round (\d).*", r"\1", line) for line in rounds] == ["1", "2", "3", "2", "3", "1"]


def test_what_a_lost_machine_had_not_reported_runs_again_and_is_reported_once(tmp_path: Path) -> None:
    lost: list[str] = []

    def behaviour(cell: Cell) -> Ended:
        if cell.stack.label == "2":
            return Ended(outcome=OutOfMemory(phase="backward"))
        asked[cell.id] += 1
        if cell.stack.label == "3" and asked[cell.id] == 3 and not lost:  # in its last round
            lost.append(cell.id)
            raise Lost("the node died")
        return passes(cell)

    asked: Counter[str] = Counter()
    cluster, watch = FakeCluster(behaviour), Seen()
    results = run(tmp_path, cluster, TIMED[0], watch=watch)
    assert watch.again == ["1: the node died", "3: the node died"]
    assert [(r.cell.stack.label, type(r.outcome)) for r in results] == [
        ("1", Passed),
        ("2", OutOfMemory),
        ("3", Passed),
    ]
    assert len(Store(str(tmp_path / "results")).load().results) == 3
    assert len([line for line in cluster.log if line.startswith("start llama/base 2")]) == 1


def test_a_cell_that_loses_every_machine_ends(tmp_path: Path) -> None:
    def behaviour(cell: Cell) -> Ended:
        if cell.stack.label == "3":
            raise Lost("the node died")
        return passes(cell)

    results = run(tmp_path, FakeCluster(behaviour), "llama/base/sim")
    found = {result.cell.stack.label: result.outcome for result in results}
    assert (found["1"], found["2"]) == (Passed(), Passed())
    assert found["3"] == Failed(
        stage="harness", signature=f"lost its machine {schedule.TRIES} times", detail="the node died"
    )


def test_a_timed_cell_that_loses_every_machine_ends_with_its_session(tmp_path: Path) -> None:
    def behaviour(cell: Cell) -> Ended:
        raise Lost("the node died")

    watch = Seen()
    results = run(tmp_path, FakeCluster(behaviour), TIMED[0], watch=watch)
    assert [type(result.outcome) for result in results] == [Failed] * 3
    assert len(watch.again) == 3 * (schedule.TRIES - 1)


def test_a_worker_stays_with_its_environment_and_one_without_cells_helps_where_most_are_left(tmp_path: Path) -> None:
    cluster = FakeCluster(machines=2)
    results = run(tmp_path, cluster, "llama/base/sim", "llama/base/cpu", "qwen/base/cpu", rounds=0)
    assert len(results) == 9
    begun = [line for line in cluster.log if line.startswith("start")]
    assert len(begun) == 9
    closed = [line for line in cluster.log if line.startswith("close ") and line != "close executor"]
    assert len(closed) <= 5  # workers: at least three environments, and at most one more for each of two machines
