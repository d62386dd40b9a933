"""Which commands make a first attempt at a program, and what of it they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import click
import pytest
from click.testing import CliRunner

from dsregress.cli import program_attempts
from dsregress.cli.bisect import bisect_command
from dsregress.cli.fit import fit_command
from dsregress.cli.options import SearchedPackage
from dsregress.cli.remedies import remedies_command
from dsregress.config.settings import Settings
from dsregress.errors import UsageError
from dsregress.run import pipeline
from dsregress.run.available_workloads import Program
from dsregress.run.pipeline import Choice

GIVEN = Program(line="python train.py", folder="/x")


def test_a_search_takes_what_the_attempt_with_its_older_end_found(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Choice] = []

    def attempted(program: Program, choice: Choice, *rest: Any) -> tuple[Program, Choice]:
        tried.append(choice)
        found = {**choice.versions, "transformers": "4.44.2", "wandb": "", "deepspeed": "0.15.0"}
        return program, Choice(versions=found, stack="transformers-4", left_out=("peft",))

    monkeypatch.setattr(program_attempts, "attempted", attempted)
    searched = SearchedPackage(package=None, stack=None, fixed={"trl": "0.9.6"})
    _, around = program_attempts.attempted_between(GIVEN, "deepspeed", "0.15.0", searched, Settings())
    assert tried == [Choice(versions={"deepspeed": "0.15.0", "trl": "0.9.6"}, baseline="deepspeed==0.15.0")]
    assert (around.stack, around.fixed) == ("transformers-4", {"trl": "0.9.6", "transformers": "4.44.2", "wandb": ""})
    assert around.left_out == ("peft",)
    _, around = program_attempts.attempted_between(GIVEN, "transformers", "4.40.0", searched, Settings())
    assert around.fixed == {"trl": "0.9.6", "wandb": ""}


@pytest.mark.parametrize(
    ("command", "words"),
    [(bisect_command, ["0.15.0..0.16.4"]), (remedies_command, []), (fit_command, ["--gpu", "A100-80G"])],
)
def test_commands_that_measure_a_program_make_a_first_attempt(
    command: click.Command, words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def attempted(*given: Any) -> NoReturn:
        raise UsageError("was tried", where="first attempt", hint="none")

    monkeypatch.setattr(program_attempts, "attempted", attempted)
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    with pytest.raises(UsageError, match="first attempt: was tried"):
        CliRunner().invoke(
            command, [*words, "--program", "python train.py"], standalone_mode=False, catch_exceptions=False
        )


@pytest.mark.parametrize(
    ("choice", "baseline"),
    [
        (Choice(versions={"deepspeed": "0.17.2,0.17.5"}), "deepspeed==0.17.2"),
        (Choice(versions={"deepspeed": "0.17.5"}), None),
        (Choice(versions={"transformers": "4.55.0,4.56.0"}), None),  # the first is the baseline anyway
        (Choice(versions={"deepspeed": "0.17.2,0.17.5"}, baseline="0.16.4"), "0.16.4"),
    ],
)
def test_the_first_release_named_for_a_program_is_the_baseline(choice: Choice, baseline: str | None) -> None:
    """The configured one may not run it, and nothing would be compared."""
    installer = pipeline.new_installer(Settings())
    assert program_attempts.led_by_its_first(choice, Settings(), installer).baseline == baseline
