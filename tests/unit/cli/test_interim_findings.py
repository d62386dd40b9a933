"""What a run says while other workloads still run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dsregress.cli.interim_findings import InterimFindings
from dsregress.cli.progress import QuietWatch
from dsregress.launch.contract import Ended
from dsregress.launch.schedule import Finished
from dsregress.model import Cell, Environment, Failed, Passed, Stack
from dsregress.report.interim import interim_lines
from tests.builders.known_runs import QUARTER, compared, ran

OLD, NEW = "0.15.0", "0.16.8"


class Notes(QuietWatch):
    """A watch that keeps the notes."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, line: str) -> None:
        self.lines.append(line)


def cell(version: str, workload: str) -> Cell:
    return msgspec.structs.replace(ran(version, QUARTER).cell, scenario=workload)


CELLS = [cell(version, workload) for workload in ("first", "second", "third") for version in (OLD, NEW)]


def told(cells: Sequence[Cell], finished: Sequence[Cell], unbuilt: Sequence[Stack] = ()) -> list[str]:
    """What is noted when these cells of the run have finished, in order; a workload's line is its name."""
    notes = Notes()
    watch = InterimFindings(notes, CELLS, lambda of: [f"{of[0].scenario} with {len(of)} cells"])
    for stack in unbuilt:
        failure = Failed("install", "no matching distribution")
        watch.building(stack, "done", Environment(stack=stack, lock_sha256="", failure=failure))
    watch.measuring(cells, 0, {})
    for one in finished:
        watch.event(Finished(one, Ended(outcome=Passed())))
    return notes.lines


def test_a_workload_is_told_when_its_last_release_has_run() -> None:
    assert told(CELLS, CELLS[:1]) == []
    assert told(CELLS, CELLS[:2]) == ["so far: first with 2 cells"]


def test_what_was_reused_counts_as_run() -> None:
    assert told(CELLS[1:], CELLS[1:2]) == ["so far: first with 2 cells"]


def test_the_last_workload_is_left_to_the_report() -> None:
    assert told(CELLS, CELLS) == ["so far: first with 2 cells", "so far: second with 2 cells"]


def test_a_release_that_cannot_be_built_is_not_waited_for() -> None:
    assert told(CELLS, CELLS[:1], unbuilt=[CELLS[1].stack]) == ["so far: first with 2 cells"]


def test_a_line_is_said_once() -> None:
    notes = Notes()
    watch = InterimFindings(notes, CELLS, lambda of: ["0.16.8: it trains wrong"])
    watch.measuring(CELLS, 0, {})
    for one in CELLS:
        watch.event(Finished(one, Ended(outcome=Passed())))
    assert notes.lines == ["so far: 0.16.8: it trains wrong"]


def test_problems_have_their_releases_and_advisories() -> None:
    assert interim_lines(compared(ran("0.18.6", QUARTER), ran("0.19.0", QUARTER, error=60.0))) == [
        "0.19.0: llama_zero3_backward: gradient norm is wrong: 60 times the tolerance from plain PyTorch. (DSR-2026-0001)"
    ]


def test_without_a_problem_nothing_is_said() -> None:
    assert interim_lines(compared(ran(OLD, QUARTER), ran(NEW, QUARTER))) == []
