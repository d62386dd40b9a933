"""What is run, what is reused, and what an interruption leaves."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from dsregress.cli.progress import QuietWatch
from dsregress.config.settings import Settings
from dsregress.errors import EnvironmentUnavailable
from dsregress.launch.contract import Ended
from dsregress.launch.fake import Behaviour, FakeExecutor, passes
from dsregress.model import Cell, Environment, Failed, Hardware, Outcome, OutOfMemory, Passed, Result, TimedOut
from dsregress.run import cell_matrix
from dsregress.run.lock import run_lock
from dsregress.run.measure import MeasureContext, measure_cells
from dsregress.store import Store, newest_by_cell
from dsregress.system import clock
from tests.builders.cells import SCENARIOS, stack


class Lab:
    """A results folder, and runs against it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(str(folder))
        self.executor = FakeExecutor()
        self.failures: dict[str, Failed] = {}
        self.added = ""  #: to the labels of its stacks

    def run(
        self,
        *versions: str,
        select: str = "llama/base/cpu",
        rounds: int = 1,
        fresh: bool = False,
        memory: int = 24 << 30,
    ) -> list[Result]:
        behaviour = self.executor.behaviour
        self.executor = FakeExecutor(behaviour)
        hardware = Hardware(cpu="c", cores=2, memory_bytes=memory)
        stacks = [replace(stack(version), label=version + self.added) for version in versions]
        return measure_cells(
            cell_matrix.build_matrix(stacks, SCENARIOS, cell_matrix.Selection(), [select], hardware),
            [Environment(stack=s, lock_sha256="l", failure=self.failures.get(s.label)) for s in stacks],
            stacks[0],
            MeasureContext(
                hardware=hardware,
                settings=Settings(rounds=rounds, warmup_rounds=0),
                executor=self.executor,
                store=self.store,
                watch=QuietWatch(),
            ),
            fresh=fresh,
        )

    @property
    def asked(self) -> list[str]:
        return [line for line in self.executor.log if line.startswith(("start", "round"))]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path / "results")


def test_each_workload_is_measured_side_by_side(lab: Lab) -> None:
    lab.run("A", "B", select="*/base/cpu")
    assert lab.asked == [
        *("start llama/base A:cpu", "start llama/base B:cpu", "round A:cpu", "round B:cpu"),
        *("start qwen/base A:cpu", "start qwen/base B:cpu", "round A:cpu", "round B:cpu"),
    ]
    assert len(lab.store.load().results) == 4


def test_a_framework_is_imported_once_for_all_its_workloads(lab: Lab) -> None:
    lab.run("A", select="*/base/cpu")
    assert lab.executor.log.count("close A:cpu") == 1


def test_a_stack_s_simulations_run_where_its_framework_is_imported_already(lab: Lab) -> None:
    lab.run("A", "B", select="*/base/*", rounds=0)
    assert sorted(line for line in lab.asked if "llama" in line) == [
        *["start llama/base A:cpu"] * 2,
        *["start llama/base B:cpu"] * 2,
    ]
    assert {line for line in lab.executor.log if line.startswith("open")} == {"open A:cpu", "open B:cpu"}
    assert {line for line in lab.executor.log if line.startswith("close ")} >= {"close A:cpu", "close B:cpu"}


def test_a_second_run_measures_nothing(lab: Lab) -> None:
    first = lab.run("A", "B")
    again = lab.run("A", "B")
    assert lab.asked == []
    assert {r.cell.id for r in again} == {r.cell.id for r in first}


def test_what_is_reused_is_called_as_in_this_call(lab: Lab) -> None:
    lab.run("A", "B")
    lab.added = " + trl 0.24.0"
    assert [result.cell.stack.label for result in lab.run("A", "B")] == ["A + trl 0.24.0", "B + trl 0.24.0"]
    assert lab.asked == []


def test_fresh_measures_all_of_it_again_and_keeps_the_old(lab: Lab) -> None:
    lab.run("A", "B")
    fresh = lab.run("A", "B", fresh=True)
    assert len(lab.asked) == 4
    assert len(lab.store.load().results) == 4
    assert {r.session for r in newest_by_cell(lab.store.load().results).values()} <= {r.session for r in fresh} | {
        r.session for r in lab.store.load().results
    }


def test_a_missing_stack_is_timed_together_with_the_baseline(lab: Lab) -> None:
    (base, _) = lab.run("A", "B")
    results = lab.run("A", "B", "C")
    assert lab.asked == ["start llama/base A:cpu", "start llama/base C:cpu", "round A:cpu", "round C:cpu"]
    sessions = {(r.cell.stack.label, r.session) for r in results}
    new = next(r.session for r in results if r.cell.stack.label == "C")
    assert sessions == {("A", base.session), ("B", base.session), ("A", new), ("C", new)}


def test_simulations_need_no_company(lab: Lab) -> None:
    lab.run("A", "B", select="llama/base/sim")
    lab.run("A", "B", "C", select="llama/base/sim")
    assert lab.asked == ["start llama/base C:sim"]


def test_more_rounds_than_stored_are_measured(lab: Lab) -> None:
    lab.run("A", rounds=9)
    lab.run("A", rounds=12)
    assert len(lab.asked) == 13


def test_an_environment_that_cannot_be_built_is_a_result_of_its_stack(lab: Lab) -> None:
    lab.failures["B"] = Failed(stage="install", signature="no wheel")
    results = lab.run("A", "B")
    outcomes = {r.cell.stack.label: r.outcome for r in results}
    assert outcomes == {"A": Passed(), "B": Failed(stage="install", signature="no wheel")}
    assert lab.asked == ["start llama/base A:cpu", "round A:cpu"]
    lab.run("A", "B")
    assert len(lab.store.load().results) == 2


def test_more_stacks_than_memory_holds_are_measured_in_groups_with_the_baseline_in_each(lab: Lab) -> None:
    results = lab.run("A", "B", "C", memory=2 << 30)
    assert [line for line in lab.asked if line.startswith("start")] == [
        *("start llama/base A:cpu", "start llama/base B:cpu"),
        *("start llama/base A:cpu", "start llama/base C:cpu"),
    ]
    assert len({r.session for r in results}) == 2


def test_an_interruption_keeps_what_was_measured_and_the_next_run_goes_on(lab: Lab) -> None:
    def interrupted(cell: Cell) -> Ended:
        if cell.scenario == "qwen":
            raise KeyboardInterrupt
        return passes(cell)

    lab.executor.behaviour = interrupted
    with pytest.raises(KeyboardInterrupt):
        lab.run("A", "B", select="*/base/cpu")
    assert lab.executor.closed
    assert lab.executor.log[-2:] == ["close A:cpu", "close B:cpu"]
    assert {r.cell.scenario for r in lab.store.load().results} == {"llama"}
    lab.executor.behaviour = passes
    lab.run("A", "B", select="*/base/cpu")
    assert [line for line in lab.asked if line.startswith("start")] == [
        *("start qwen/base A:cpu", "start qwen/base B:cpu"),
    ]


def test_an_interruption_in_the_last_round_keeps_the_cells_that_passed_in_it(lab: Lab) -> None:
    calls: list[str] = []

    def interrupted(cell: Cell) -> Ended:
        calls.append(cell.stack.label)
        if calls == ["A", "B", "A", "B"]:  # both have started, A has run its round
            raise KeyboardInterrupt
        return passes(cell)

    lab.executor.behaviour = interrupted
    with pytest.raises(KeyboardInterrupt):
        lab.run("A", "B")
    assert [r.cell.stack.label for r in lab.store.load().results] == ["A"]


def test_two_runs_in_one_checkout_are_refused_clearly(tmp_path: Path) -> None:
    program = f"""
import pathlib, time
from dsregress.run.lock import run_lock
with run_lock(pathlib.Path({str(tmp_path)!r})):
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(EnvironmentUnavailable) as caught, run_lock(tmp_path):
            raise AssertionError("both run")
        other.kill()
    assert f"another run is in progress in this folder (process {other.pid})" in str(caught.value)
    assert caught.value.exit_code == 3
    with run_lock(tmp_path):  # the kernel let go of it
        pass


LAST = "2026-06-01T12:00:00Z"


@pytest.mark.parametrize(
    ("clock_says", "dated"),
    [
        ("2026-06-01T12:00:01Z", "2026-06-01T12:00:01Z"),
        (LAST, "2026-06-01T12:00:01Z"),  # in the same second
        ("2026-06-01T11:59:59Z", "2026-06-01T12:00:01Z"),  # a time server has corrected it
        ("1970-01-01T00:00:07Z", "2026-06-01T12:00:01Z"),  # its battery is empty
        ("2106-02-07T06:28:15Z", "2106-02-07T06:28:15Z"),
    ],
)
def test_what_is_measured_last_counts_whatever_the_clock_says(
    lab: Lab, capsys: pytest.CaptureFixture[str], clock_says: str, dated: str
) -> None:
    def at(started_at: str, outcome: Outcome) -> Behaviour:
        return lambda cell: replace(passes(cell), started_at=started_at, outcome=outcome)

    lab.executor.behaviour = at(LAST, OutOfMemory(phase="backward"))
    lab.run("A")
    lab.executor.behaviour = at(clock_says, Passed())
    (result,) = lab.run("A", fresh=True)
    assert result.started_at == dated
    lab.executor.behaviour = at("1970-01-01T00:00:00Z", TimedOut(stage="init", limit_s=1))
    (again,) = lab.run("A")  # the newest, which is reused
    assert again.session == result.session
    assert [r.session for r in newest_by_cell(lab.store.load().results).values()] == [result.session]
    said = capsys.readouterr().err
    assert ("the clock is, or was, wrong" in said) == clock_says.startswith("1970")


def test_a_clock_that_was_in_the_future_does_not_hide_what_is_measured_now(lab: Lab) -> None:
    for started_at in ("2106-02-07T06:28:15Z", "2026-06-01T12:00:00Z", "2026-06-01T12:10:00Z"):
        lab.executor.behaviour = lambda cell, at=started_at: replace(passes(cell), started_at=at)  # type: ignore[misc]
        (result,) = lab.run("A", fresh=True)
        assert [r.session for r in newest_by_cell(lab.store.load().results).values()] == [result.session]
    assert [r.started_at[-3:] for r in lab.store.runs(result.cell)] == ["15Z", "16Z", "17Z"]


def test_sessions_that_begin_in_one_second_have_names_of_their_own() -> None:
    assert len({clock.name_of_session() for _ in range(500)}) == 500


def test_a_run_without_a_date_is_dated(lab: Lab) -> None:
    lab.executor.behaviour = lambda cell: Ended(outcome=Failed(stage="harness", signature="lost"))
    (result,) = lab.run("A")
    assert clock.is_stamp(result.started_at)
    assert lab.store.load().problems == ()


def test_a_pipe_where_the_lock_notes_its_process_blocks_no_run(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "run.pid")  # what is measured can write here
    with run_lock(tmp_path):
        assert (tmp_path / "run.pid").read_text() == f"{os.getpid()}\n"


def reasons(lab: Lab, caplog: pytest.LogCaptureFixture, *versions: str, **options: object) -> list[str]:
    """What the debug log says of why cells are run, without times."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG, logger="dsregress.run"):
        lab.run(*versions, **options)  # type: ignore[arg-type]
    lines = [record.getMessage() for record in caplog.records if record.name == "dsregress.run"]
    return [re.sub(r"20\d\d-[^ ,]+Z", "DATE", line.partition(": run: ")[2]) for line in lines]


def test_the_debug_log_says_why_a_stored_result_is_not_reused(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    assert reasons(lab, caplog, "A") == ["it has no stored results"]
    assert reasons(lab, caplog, "A") == []
    assert reasons(lab, caplog, "A", fresh=True) == ["all is measured again"]
    assert reasons(lab, caplog, "A", rounds=30) == ["its last run, of DATE, has fewer timed rounds than 30"]
    assert reasons(lab, caplog, "A", memory=48 << 30) == ["changed since its last run, of DATE: hardware"]
    assert reasons(lab, caplog, "A", "B") == [
        "the step times of its workload are compared with it",
        "it has no stored results",
    ]


def test_the_debug_log_says_that_a_timeout_is_tried_again(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.executor.behaviour = lambda cell: Ended(outcome=TimedOut("step", 5.0))
    lab.run("A")
    assert reasons(lab, caplog, "A") == [
        "its last run, of DATE, is tried again: no sign of life for 5 s, last seen in step"
    ]


def test_the_debug_log_says_when_cells_start_and_how_they_end(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="dsregress.launch"):
        lab.run("A", select="llama/base/sim")
    said = [record.getMessage() for record in caplog.records if record.name == "dsregress.launch"]
    cell = lab.store.load().results[0].cell.id
    assert said == [f"{cell}: started", f"{cell}: passed, 0.1 s"]
