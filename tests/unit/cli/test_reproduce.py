"""``reproduce`` refuses what it cannot use before anything is measured, and takes an earlier answer as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness import cli
from harness.cli import reproduce
from harness.errors import UsageError
from harness.model import Cell, Stack
from harness.probe import scenario
from harness.report.answers.stored import StoredReproduction
from harness.reproduce.factors import SIMPLEST
from tests.paths import ROOT

MINIMAL = scenario.load(ROOT / "scenarios" / f"{SIMPLEST}.py")


@pytest.mark.parametrize("output", ["-", "new/..", "-c.py"])
def test_a_script_needs_a_name_that_torchrun_can_run(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", "0.18.3/llama_zero3_backward/base/cpu", "--output", output])
    assert caught.value.code == 2
    assert f"error: --output: no name for a script: {output}; name a file" in capsys.readouterr().err


def test_another_package_needs_a_release_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", "4.48.3/trainer_zero3/base/cpu", "--package", "transformers"])
    assert caught.value.code == 2
    assert "error: --against: no release of transformers to compare with; name one" in capsys.readouterr().err


ANSWER = ROOT / "docs" / "reproducers" / "quarter.json"


def cell(earlier: StoredReproduction, version: str) -> Cell:
    versions = dict(re.findall(r"([a-z]+)([0-9.]+)", earlier.cell.partition("/")[0]))
    python = versions.pop("py")
    return Cell(
        stack=Stack(python=python, versions={**versions, "deepspeed": version}, label=version),
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
    with pytest.raises(UsageError, match="the answer is about another stack"):
        reproduce._reduced(earlier, cell(earlier, "0.19.8"), MINIMAL, lambda _: pytest.fail("no release"), "f.py")


def test_what_an_answer_says_is_not_given_again(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["reproduce", str(ANSWER), "--metric", "loss_error"])
    assert caught.value.code == 2
    assert f"error: --metric: {ANSWER} says it already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "why"),
    [(None, "cannot be read: No such file or directory"), (b"{}", "no answer of `reproduce`")],
)
def test_a_file_that_is_no_answer_is_refused(content: bytes | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=why):
        reproduce._earlier(str(file))
