"""``reproduce`` refuses what it cannot use before anything is measured, and takes an earlier answer as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsregress import cli
from dsregress.cli import reproduce
from dsregress.config.settings import Settings
from dsregress.errors import UsageError
from dsregress.model import Cell, Stack
from dsregress.probe import scenario
from dsregress.report.stored_answers import StoredReproduction
from dsregress.reproduce.factors import SIMPLEST
from dsregress.versions.commits import stack_of
from dsregress.versions.stack_plans import of_id
from tests.paths import ROOT

MINIMAL = scenario.load(ROOT / "scenarios" / f"{SIMPLEST}.py")


@pytest.mark.parametrize("output", ["-", "new/..", "-c.py"])
def test_a_script_needs_a_name_that_torchrun_can_run(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run_command_line(["reproduce", "0.18.3/llama_zero3_backward/base/cpu", "--output", output])
    assert caught.value.code == 2
    assert f"error: --output: not a valid script name: {output}; name a file" in capsys.readouterr().err


def test_another_package_needs_a_release_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run_command_line(["reproduce", "4.48.3/trainer_zero3/base/cpu", "--package", "transformers"])
    assert caught.value.code == 2
    assert "error: --against: no release of transformers to compare with; name one" in capsys.readouterr().err


ANSWER = ROOT / "results" / "reproducers" / "quarter.json"


def cell(earlier: StoredReproduction, version: str) -> Cell:
    stack = of_id(earlier.cell.partition("/")[0])
    assert stack is not None
    return Cell(
        stack=stack_of(stack, "deepspeed", version, label=version),
        scenario=earlier.workload.scenario,
        scenario_version=1,
        variant=earlier.workload.variant,
        device="cpu",
        framework=MINIMAL.framework,
        parameters={},
    )


def test_an_answer_that_is_written_again_keeps_its_conditions_and_its_releases() -> None:
    earlier = reproduce._earlier(str(ANSWER))

    def in_release(version: str) -> Stack:
        return cell(earlier, version).stack

    found = reproduce._reduced(earlier, cell(earlier, earlier.bad), MINIMAL, in_release, "quarter.py")
    assert tuple(one.factor.text(one.shown, one.hidden) for one in found.reduced.needed) == earlier.needed
    assert {one.factor.name for one in found.reduced.indifferent} == {one.factor for one in earlier.indifferent}
    assert {one.factor.name for one in found.reduced.open} == {one.factor for one in earlier.not_known}
    assert found.reduced.parameters["model_outputs"] == "all"
    assert (found.good.label, found.later and found.later.label) == (earlier.good, earlier.runs[2].version)
    assert found.trials == earlier.trials > 0


def test_an_answer_of_another_stack_is_not_written_again() -> None:
    earlier = reproduce._earlier(str(ANSWER))
    with pytest.raises(UsageError, match="the answer belongs to another stack"):
        reproduce._reduced(earlier, cell(earlier, "0.19.8"), MINIMAL, lambda _: pytest.fail("no release"), "f.py")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--metric", "loss_error"], "--metric"),
        (["--torch", "2.5.1"], "--torch"),
        (["--with", "trl=1.0.0"], "--with trl"),
    ],
)
def test_what_an_answer_says_is_not_given_again(
    options: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run_command_line(["reproduce", str(ANSWER), *options])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert f"error: {named}: {ANSWER} already sets it; drop the option, or reproduce the cell with it" in said


def test_an_answer_brings_its_own_packages() -> None:
    answer = reproduce._earlier(str(ANSWER.with_name("trainer_loss.json")))
    settings = reproduce._in_its_stack(
        Settings(python="3.12", stack={"deepspeed": ("0.19.8",), "trl": "1.0.0"}), answer
    )
    assert settings.python == "3.11"
    assert settings.stack == {
        "torch": "2.13.0",
        "transformers": "4.47.0",
        "accelerate": "1.15.0",
        "peft": "0.21.2",
        "deepspeed": ("0.16.8",),
    }


def test_what_the_releases_differ_in_is_not_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.run_command_line(["reproduce", "0.18.3/llama_zero3_backward/base/cpu", "--deepspeed", "0.18.5"])
    assert caught.value.code == 2
    assert "error: --deepspeed: deepspeed is the package being compared; its releases are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("quarter.py", "name the answer beside it: {folder}/quarter.json"),
        ("sweep.jsonl.gz", "VERSION/scenario/variant/device --results {folder}/sweep.jsonl.gz"),
        ("README.md", "or a file that `reproduce CELL --json FILE` wrote"),
    ],
)
def test_a_file_that_is_no_finding_is_refused(
    file: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in (file, "quarter.json"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(SystemExit) as caught:
        cli.run_command_line(["reproduce", str(tmp_path / file)])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert f"error: {tmp_path / file}: not a finding: this is a file; " in said
    assert hint.format(folder=tmp_path) in said


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: No such file or directory"), (b"{}", "not an answer of `reproduce`")],
)
def test_a_file_that_is_no_answer_is_refused(content: bytes | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=why):
        reproduce._earlier(str(file))
