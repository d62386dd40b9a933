"""Runs that are cut short or meet: nothing measured is lost, nothing is left running, the next run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.offline.project import GOOD, LIMIT_S, VERSION, Project, stored
from tests.offline.waiting import gone, heard, until

HANGING = VERSION["hanging"]


@pytest.fixture
def running(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A run that has measured the good release and hangs in the other."""
    project.configure(GOOD, HANGING, timeout_s=LIMIT_S)
    with project.started("regress") as process:
        heard(process, "[1/2")
        until(
            lambda: len(project.processes()) >= 5
        )  # the harness apart: the cell's process and two ranks, under a server
        yield process


def goes_on(project: Project) -> None:
    """The next run takes what was measured and measures the rest."""
    report = project.regress("--timeout", "2")
    assert "1 cell to run" in report.said.err
    assert "1 are stored already" in report.said.err
    assert [report.cell(version)["outcome"] for version in (GOOD, HANGING)] == ["passed", "timed_out"]
    assert report.code == 1


INTERRUPTED = "dsregress: interrupted; finished measurements are stored: run the same command to continue"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
@pytest.mark.parametrize("times", [1, 30])
def test_an_interrupted_run_keeps_what_it_measured_leaves_nothing_running_and_the_next_goes_on(
    project: Project, running: subprocess.Popen[str], number: signal.Signals, code: int, times: int
) -> None:
    for _ in range(times):  # a user's impatience, or a CI system's: none of them may cut the end short
        if running.poll() is None:
            os.killpg(running.pid, number)  # as a terminal does
            time.sleep(0.02)
    out, err = running.communicate(timeout=LIMIT_S)
    assert (running.returncode, out) == (code, "")
    # The line that was heard may be written once more, where a signal met the write itself.
    said = [line for line in err.splitlines() if line and not line.startswith("[1/2")]
    assert [line for line in said if not line.startswith("dsregress: ending: ")] == [INTERRUPTED]
    assert times > 1 or said == [INTERRUPTED]
    assert project.processes() == []
    assert [result["cell"]["stack"]["versions"]["tinyframe"] for result in stored(project)] == [GOOD]
    goes_on(project)


def test_a_killed_run_leaves_nothing_running_and_the_next_goes_on(
    project: Project, running: subprocess.Popen[str]
) -> None:
    pids = [running.pid, *(pid for pid, _ in project.running())]
    running.kill()
    assert gone(pids)
    assert project.processes() == []
    goes_on(project)


def test_a_second_run_at_the_same_time_is_refused_in_one_line_and_a_report_is_not(
    project: Project, running: subprocess.Popen[str], tmp_path: Path
) -> None:
    said = project.run("regress", "--results", str(tmp_path / "others"))
    assert (said.code, said.out) == (3, "")
    assert said.err == (
        f"dsregress: error: {project.work}/run.lock: another run is in progress in this folder "
        f"(process {running.pid}); two runs would disturb each other's measurements; "
        "wait for it to finish, or set DSREGRESS_ENVIRONMENTS to another folder\n"
    )
    assert running.poll() is None

    read = project.run("report")  # what it has stored so far may be read meanwhile
    assert (read.code, read.err) == (0, "")
    assert "on 1 workload" in read.out
    assert running.poll() is None
