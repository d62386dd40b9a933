"""What a person reads while a run goes on."""

from __future__ import annotations

from rich.console import Console

from harness.cli.progress import Progress
from harness.model import Environment, Stack

STACK = Stack(python="3.11", versions={"deepspeed": "0.16.4"})


def _said(build_s: float) -> str:
    console = Console(record=True, width=100, force_terminal=False)
    with Progress(console) as progress:
        progress.building(STACK, "started", None)
        progress.building(STACK, "done", Environment(stack=STACK, lock_sha256="l", build_s=build_s))
    return console.export_text()


def test_an_environment_that_was_built_is_said_with_its_time() -> None:
    assert _said(12.3) == "environment py3.11-deepspeed0.16.4: built in 12 s\n"


def test_an_environment_that_stood_already_is_not_said_however_slow_the_machine_was_to_see_it() -> None:
    assert _said(0.0) == ""
