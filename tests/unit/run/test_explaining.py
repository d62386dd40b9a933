"""Which cells are explained, and what findings get of it. The executor is the pretended one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dsregress import compare
from dsregress.config.thresholds import Thresholds
from dsregress.launch.contract import Ended
from dsregress.launch.fake import FakeExecutor
from dsregress.model import Cell, Environment, Failed, Passed, TimedOut
from dsregress.probe.border.wire import Explanation, Held, Moment, RunRecord
from dsregress.run import explaining
from dsregress.store import Explanations
from tests.builders.synthetic import HARDWARE, record, result

KEY = "backward.device_retained_bytes"
SITE = "deepspeed/a.py:7 in gather"
MORE = 64 << 20


def run_holding(more: int) -> RunRecord:
    made = record()
    for rank in made.ranks:
        rank.phases["backward"].device_retained_bytes += more
    return made


def comparison(*versions: str, device: str = "cpu", duration_s: float = 1.0) -> compare.Comparison:
    """0.15.0 is the baseline, each other one holds more after backward."""
    results = [
        result(version, device=device, duration_s=duration_s, run=run_holding(0 if version == "0.15.0" else MORE))
        for version in ("0.15.0", *versions)
    ]
    return compare.compare(results, results[0].cell.stack.id, Thresholds(), lambda one: None)


def explains(cell: Cell) -> Ended:
    nbytes = 100 if cell.stack.versions["deepspeed"] == "0.15.0" else 100 + MORE
    row = Held(nbytes, 1, "gathered parameters", "model.layers.*", SITE, [], "backward")
    return Ended(outcome=Passed(), explanation=Explanation({KEY: Moment(0, nbytes, [row])}))


def crashes(cell: Cell) -> Ended:
    return Ended(outcome=Failed(stage="backward", signature="RuntimeError: no"))


def hangs(cell: Cell) -> Ended:
    return Ended(outcome=TimedOut(stage="backward", limit_s=60))


def says_nothing(cell: Cell) -> Ended:
    return Ended(outcome=Passed())


class Desk:
    """A place whose asking is counted."""

    def __init__(self, folder: Path, judged: compare.Comparison, behaviour: object = explains) -> None:
        self.asked = 0
        self.executor = FakeExecutor(behaviour)  # type: ignore[arg-type]
        self.place = explaining.ExplainContext(
            cluster=self.executor.cluster(HARDWARE),
            environments={one.id: Environment(stack=one, lock_sha256="l") for one in judged.stacks},
            hardware=HARDWARE,
            explanations=Explanations(str(folder)),
        )

    def __call__(self) -> explaining.ExplainContext:
        self.asked += 1
        return self.place

    @property
    def started(self) -> list[str]:
        return sorted(line.split("deepspeed")[1] for line in self.executor.log if line.startswith("start"))


def evidence(judged: compare.Comparison, version: str) -> list[str]:
    (found,) = [
        one
        for one in judged.findings
        if one.stack.endswith(version) and one.metric == "device_retained_bytes" and one.phase == "backward"
    ]
    return [line for line in found.evidence if "gathered" in line or "not known" in line or "explain" in line]


def test_the_first_of_the_releases_that_hold_most_is_explained_and_the_others_name_it(tmp_path: Path) -> None:
    judged = comparison("0.16.0", "0.16.4")
    desk = Desk(tmp_path, judged)
    told = explaining.attach(judged, desk, all_cells=False)
    line = f"held after backward: 64.0 MiB more gathered parameters at {SITE}, for model.layers.*"
    line += " (64.0 MiB instead of 100 B)"
    assert evidence(told, "0.16.0") == [line]
    assert evidence(told, "0.16.4") == [f"in 0.16.0, {line}"]
    assert desk.started == ["0.15.0:cpu", "0.16.0:cpu"]
    assert any(line in group.headline.evidence for group in told.groups)


def test_what_is_stored_is_not_run_again(tmp_path: Path) -> None:
    judged = comparison("0.16.4")
    explaining.attach(judged, Desk(tmp_path, judged), all_cells=False)
    again = Desk(tmp_path, judged)
    told = explaining.attach(judged, again, all_cells=False)
    assert again.started == []
    assert len(evidence(told, "0.16.4")) == 1


def test_a_long_simulation_is_explained_only_when_asked_for_and_says_how_to_ask(tmp_path: Path) -> None:
    judged = comparison("0.16.4", device="sim", duration_s=30.0)
    desk = Desk(tmp_path, judged)
    how = f"who holds it: dsregress explain 0.16.4/{judged.groups[0].headline.workload} --against 0.15.0"
    told = explaining.attach(judged, desk, all_cells=False)
    assert desk.asked == 0
    assert how in told.groups[0].headline.evidence
    later = explaining.attach_stored(judged, lambda result: None)
    assert how in later.groups[0].headline.evidence
    assert len(evidence(explaining.attach(judged, desk, all_cells=True), "0.16.4")) == 1


def test_where_nothing_is_worse_nothing_is_run(tmp_path: Path) -> None:
    judged = comparison()
    desk = Desk(tmp_path, judged)
    assert explaining.attach(judged, desk, all_cells=True) is judged
    assert desk.asked == 0


def test_a_run_that_fails_is_said_and_costs_the_report_nothing(tmp_path: Path) -> None:
    judged = comparison("0.16.4")
    lines: list[str] = []
    told = explaining.attach(judged, Desk(tmp_path, judged, crashes), all_cells=False, report=lines.append)
    assert evidence(told, "0.16.4") == []
    assert lines[-1].endswith(": its run failed in backward: RuntimeError: no")
    assert [msgspec.structs.replace(one, evidence=()) for one in told.findings] == [
        msgspec.structs.replace(one, evidence=()) for one in judged.findings
    ]


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (hangs, "its run ended early: no sign of life for 60 s, last seen in backward"),
        (says_nothing, "its run passed but left no explanation"),
    ],
)
def test_a_run_without_an_explanation_says_how_it_ended(tmp_path: Path, behaviour: object, why: str) -> None:
    judged = comparison("0.16.4")
    lines: list[str] = []
    explaining.attach(judged, Desk(tmp_path, judged, behaviour), all_cells=False, report=lines.append)
    assert lines[-1].endswith(f": {why}")


def test_cells_of_one_environment_are_explained_by_one_worker(tmp_path: Path) -> None:
    judged = comparison("0.16.4")
    desk = Desk(tmp_path, judged)
    cells = [msgspec.structs.replace(one.result.cell, variant=v) for one in judged.cells for v in ("a", "b")]
    explaining.explain_cells(cells, desk.place)
    opened = [line for line in desk.executor.log if line.startswith("open")]
    assert len(desk.started) == 4
    assert len(opened) == 2
