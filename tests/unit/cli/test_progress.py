"""What a person reads while a run goes on."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from dsregress.cli.progress import Progress
from dsregress.launch.schedule import Started
from dsregress.model import Cell, Environment, Stack

STACK = Stack(python="3.11", versions={"deepspeed": "0.16.4"})
CELL = Cell(
    stack=STACK, scenario="toy", scenario_version=1, variant="base", device="cpu", framework="deepspeed", parameters={}
)


def printed(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def _said(build_s: float) -> str:
    console = Console(file=io.StringIO())
    with Progress(console) as progress:
        progress.building(STACK, "started", None)
        progress.building(STACK, "done", Environment(stack=STACK, lock_sha256="l", build_s=build_s))
    return printed(console)


def test_an_environment_that_was_built_is_said_with_its_time() -> None:
    assert _said(12.3) == "environment py3.11-deepspeed0.16.4: built in 12 s\n"


def test_an_environment_that_stood_already_is_not_said_however_slow_the_machine_was_to_see_it() -> None:
    assert _said(0.0) == ""


def test_a_log_that_says_nothing_for_a_minute_says_what_runs_and_then_after_twice_as_long() -> None:
    console = Console(file=io.StringIO())
    progress = Progress(console)
    progress.measuring([CELL], 0, {})
    progress.event(Started(CELL))
    began = time.monotonic()
    for after_s in (30, 70, 100, 195, 300):
        progress.break_silence(began + after_s)
    assert printed(console).splitlines() == [
        "1 cell to run; 0 are stored already",
        "still running py3.11-deepspeed0.16.4  toy/base/cpu: untimed part, 1 min 10 s",
        "still running py3.11-deepspeed0.16.4  toy/base/cpu: untimed part, 3 min 15 s",
    ]


def test_a_log_in_which_nothing_runs_stays_silent() -> None:
    console = Console(file=io.StringIO())
    Progress(console).break_silence(time.monotonic() + 600)
    assert printed(console) == ""


def test_a_line_that_was_written_when_the_run_was_interrupted_is_not_written_again() -> None:
    class Interrupted(io.StringIO):
        def flush(self) -> None:
            if self.getvalue() == "first\n":
                raise KeyboardInterrupt

    progress = Progress(Console(file=(log := Interrupted())))
    with pytest.raises(KeyboardInterrupt):
        progress.note("first")
    progress.note("second")
    assert log.getvalue() == "first\nsecond\n"


def test_that_all_is_stored_is_said_once() -> None:
    console = Console(file=io.StringIO())
    progress = Progress(console)
    for reused in (1, 1, 2):
        progress.measuring([], reused, {})
    assert printed(console).splitlines() == ["all 1 stored", "all 2 stored"]
