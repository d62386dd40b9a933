"""What a release starts and leaves: nothing of it outlives the run, however the run or one of its processes ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.offline.project import GOOD, LIMIT_S, Project, cell, stack, stored
from tests.offline.waiting import gone, until
from tests.packages import build

LEAVING, COMPILING = "5.4.0", "5.4.1"

#: At the end of a release: its first step starts a child and a daemon, which has neither parent nor session.
STARTING = """
import os, subprocess, time

class Engine(Engine):
    def step(self):
        if self.rank == 0 and not hasattr(self, "started"):
            self.started = subprocess.Popen(["sleep", "600"])
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0:
                    os.execvp("tail", ["tail", "-f", os.devnull])
                os._exit(0)
            os.wait()
        {then}
        return super().step()
"""
STARTED = ("sleep 600", "tail -f /dev/null")


@pytest.fixture(autouse=True)
def releases(shared: Project) -> None:
    index = shared.folder / "index"
    build.build(index, LEAVING, more=STARTING.replace("{then}", ""))
    build.build(index, COMPILING, more=STARTING.replace("{then}", "time.sleep(3600)"))


def started(project: Project) -> list[int]:
    return [pid for pid, command in project.running() if command in STARTED]


@pytest.fixture
def compiling(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A run that hangs in a release which has started two processes of its own."""
    project.configure(GOOD, COMPILING, timeout_s=LIMIT_S)
    with project.started("regress") as process:
        until(lambda: len(started(project)) == len(STARTED) or process.poll() is not None)
        assert process.poll() is None
        yield process


def test_a_run_that_cannot_find_daemons_says_so_before_it_begins(project: Project) -> None:
    project.configure(GOOD)
    hide = 'mount -t tmpfs none /proc || exit 99; exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", hide, "sh", sys.executable, "-m", "dsregress"]
    said = subprocess.run(
        [*command, "regress"], cwd=project.folder, env=project.variables, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip
    if said.returncode == 99 or "unshare failed" in said.stderr:
        pytest.skip(f"this user may not mount a file system: {said.stderr.strip()}")
    line = "/proc cannot be read: daemons that a release starts are neither ended nor named; mount it (proc(5))"
    assert said.stderr.splitlines().index(line) == 0, said.stderr
    assert line not in project.run("regress").err


def test_daemons_of_a_release_that_passes_are_ended_with_its_cell_and_named(project: Project) -> None:
    project.configure(GOOD, LEAVING, select=["fit/*/cpu"])
    report = project.regress()
    assert [report.cell(LEAVING, variant)["outcome"] for variant in ("base", "gradient_accumulation_steps=3")] == [
        "passed",
        "passed",
    ]
    for variant in ("base", "gradient_accumulation_steps=3"):
        line = f"{cell(LEAVING, variant)} left 2 processes running, which were ended: sleep, tail\n"
        assert line in report.said.err
    assert {
        (r["cell"]["stack"]["versions"]["tinyframe"], r["cell"]["variant"]): r["left"] for r in stored(project)
    } == {
        (version, variant): {"sleep": 1, "tail": 1} if version == LEAVING else {}
        for version in (GOOD, LEAVING)
        for variant in ("base", "gradient_accumulation_steps=3")
    }
    assert report.said.err.count("which were ended") == 2
    left = "left 2 processes running, which were ended: sleep, tail"
    assert f"{LEAVING}: fit/base/cpu {left}, fit/gradient_accumulation_steps=3/cpu {left}" in report.json["notes"]
    assert project.processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_ends_what_its_ranks_started_and_names_it(
    project: Project, compiling: subprocess.Popen[str], number: signal.Signals
) -> None:
    os.killpg(compiling.pid, number)  # as a terminal does
    _, err = compiling.communicate(timeout=LIMIT_S)
    assert project.processes() == []
    assert f"the server of {stack(COMPILING)} left 2 processes running, which were ended: sleep, tail\n" in err


def test_a_killed_run_leaves_nothing_that_its_ranks_started(project: Project, compiling: subprocess.Popen[str]) -> None:
    pids = [pid for pid, _ in project.running()]
    compiling.kill()
    assert gone(pids)
    assert project.processes() == []


def between(project: Project) -> tuple[int, int]:
    """The keeper and the server of the release that hangs: the baseline's wait for what else the run may want of them."""
    servers = [(pid, command) for pid, command in project.running() if "dsregress.probe.process.server" in command]
    found = [(pid, command) for pid, command in servers if f"tinyframe{COMPILING}-" in command]
    keepers = [pid for pid, command in found if "dsregress.system.keeper" in command]
    return keepers[0], min(pid for pid, _ in found if pid not in keepers)


@pytest.mark.parametrize("which", [0, 1], ids=["keeper", "server"])
def test_a_killed_process_in_between_leaves_nothing_either(
    project: Project, compiling: subprocess.Popen[str], which: int
) -> None:
    pids = [pid for pid, _ in project.running() if pid != compiling.pid]
    os.kill(between(project)[which], signal.SIGKILL)
    _, err = compiling.communicate(timeout=LIMIT_S)
    assert compiling.returncode == 3, err  # the machine's fault: no verdict on the release
    assert f"the server of {stack(COMPILING)} left 2 processes running, which were ended: sleep, tail\n" in err
    assert gone(pids)
    assert project.processes() == []


def test_all_of_a_run_killed_at_once_leaves_only_what_the_next_run_ends(
    project: Project, compiling: subprocess.Popen[str]
) -> None:
    keeper, server = between(project)
    for pid in (compiling.pid, keeper, server):
        os.kill(pid, signal.SIGSTOP)  # so that none can act before it is killed
    for pid in (server, keeper, compiling.pid):  # a child that is stopped gets SIGHUP when its parent ends
        os.kill(pid, signal.SIGKILL)
    compiling.communicate(timeout=LIMIT_S)
    until(lambda: len(project.running()) == len(STARTED))
    assert len(started(project)) == len(STARTED)
    project.configure(GOOD)
    report = project.regress()
    assert "an earlier run left 2 processes running, which were ended: sleep, tail\n" in report.said.err
    assert project.processes() == []
