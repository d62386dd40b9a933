"""Releases that spoil the folders of runs, and processes that outrun a signal: no later run and no other release suffers."""

from __future__ import annotations

import pytest

from tests.builders.spoiling import spoiling
from tests.offline.project import GOOD, Project, cell, stack
from tests.packages import build

NESTING_RUN, NESTING_HOME, REMOVING, FORKING = "11.0.0", "11.1.0", "11.4.0", "12.6.0"
LEAVING, LEAVING_AND_DYING = "12.7.0", "12.8.0"

SPOILS = {NESTING_RUN: "nest_run", NESTING_HOME: "nest_home", REMOVING: "remove_runs", FORKING: "fork_and_exit"}
SPOILS |= {LEAVING: "leave_a_fork", LEAVING_AND_DYING: "leave_a_fork_and_die"}


@pytest.fixture(scope="module", autouse=True)
def releases(shared: Project) -> None:
    for version, spoil in SPOILS.items():
        build.build(shared.folder / "index", version, more=spoiling(spoil))


@pytest.mark.parametrize("version", [NESTING_RUN, NESTING_HOME])
def test_folders_nested_without_end_cost_neither_this_run_nor_the_next(project: Project, version: str) -> None:
    project.configure(GOOD, version)
    for arguments in ((), ("--fresh",)):
        report = project.regress(*arguments)
        assert report.code == 0, report.said.err
        assert report.cell(version)["outcome"] == report.cell(GOOD)["outcome"] == "passed"


def test_where_a_release_removes_the_folder_of_all_runs_nobody_is_said_to_have_changed_the_probe(
    project: Project,
) -> None:
    project.configure(GOOD, REMOVING)
    report = project.regress()
    assert "changed the code that measured it" not in report.said.err
    assert report.said.err.count("files of a run were removed while it ran") == 1
    assert report.code in (0, 3)
    assert {found["outcome"] for found in report.json["cells"]} <= {"passed", "machine_fault"}
    assert report.json["findings"] == []
    project.configure(GOOD)
    assert project.regress().code == 0


def test_what_forks_and_exits_at_once_is_ended_with_its_cell_and_named(project: Project) -> None:
    project.configure(GOOD, FORKING)
    report = project.regress()
    assert report.cell(FORKING)["outcome"] == "passed"
    assert f"{cell(FORKING)} left " in report.said.err
    assert stack(GOOD) not in report.said.err
    assert project.processes() == []


def test_a_fork_of_a_rank_that_outlives_it_delays_no_cell_and_changes_no_outcome(project: Project) -> None:
    project.configure(GOOD, LEAVING, LEAVING_AND_DYING)
    report = project.regress()
    assert report.cell(LEAVING)["outcome"] == "passed"
    assert f"{cell(LEAVING)} left 1 process running, which was ended: python" in report.said.err
    assert report.cell(LEAVING_AND_DYING)["outcome"] == "failed"
    assert f"{LEAVING_AND_DYING}  fit/base/cpu: failed in step: killed by SIGSEGV" in report.said.err
    assert project.processes() == []
