"""A workload that does not use a package says nothing about its releases."""

from __future__ import annotations

import msgspec
import pytest

from dsregress.compare import Comparison, Thresholds, compare, exit_code
from dsregress.model import Cell, Failed, Result
from dsregress.probe.border.wire import Numerics, RunRecord
from dsregress.report.context import report_context
from dsregress.report.report_view import report_view
from tests.builders import synthetic
from tests.builders.synthetic import MIB, result

WORDS = ("memory", "time", "numerics", "crash")
WITHOUT_PEFT = ["deepspeed", "torch", "transformers"]


def run(uses: list[str], more_bytes: int = 0) -> RunRecord:
    made = synthetic.record()
    for rank in made.ranks:
        rank.uses = uses
        rank.phases["backward"].device_retained_bytes += more_bytes
    return made


def with_peft(version: str, scenario: str, record: RunRecord) -> Result:
    made = result(scenario=scenario)
    stack = synthetic.stack("0.15.0", peft=version)
    fields = {name: getattr(made.cell, name) for name in made.cell.__struct_fields__}
    return result(scenario=scenario, run=record, cell=Cell(**{**fields, "stack": stack}))


def judged(*results: Result) -> Comparison:
    return compare(results, synthetic.stack("0.15.0", peft="0.21.1").id, Thresholds(), lambda _: None)


def both(scenario: str, uses: list[str], more_bytes: int = 0) -> list[Result]:
    return [
        with_peft("0.21.1", scenario, run(uses)),
        with_peft("0.21.2", scenario, run(uses, more_bytes)),
    ]


def headline(comparison: Comparison) -> str:
    return str(report_view(report_context(comparison, Thresholds())).screen.headline)


def test_nothing_is_worse_is_not_said_of_a_release_that_no_workload_uses() -> None:
    comparison = judged(*both("plain", WITHOUT_PEFT))
    assert headline(comparison) == (
        "Nothing could be compared with the baseline: it does not use peft, and says nothing about these releases"
    )
    assert exit_code(comparison, WORDS) == 4


def test_a_workload_that_uses_the_release_is_compared_beside_one_that_does_not() -> None:
    comparison = judged(*both("plain", WITHOUT_PEFT), *both("lora", ["peft", *WITHOUT_PEFT]))
    assert [
        (one.workload.split("/")[0], one.reason) for one in comparison.not_compared if one.what != "step_time_s"
    ] == [("plain", "it does not use peft, and says nothing about these releases")]
    assert comparison.compared == 1
    assert headline(comparison) == "Nothing is worse than the baseline"
    assert exit_code(comparison, WORDS) == 0


def test_a_difference_counts_whatever_the_workload_seems_to_use() -> None:
    comparison = judged(*both("plain", WITHOUT_PEFT, more_bytes=64 * MIB))
    assert [one.metric for one in comparison.findings] == ["device_retained_bytes"]
    assert exit_code(comparison, WORDS) == 1


@pytest.mark.parametrize("uses", [[], ["peft", "torch"]], ids=["of-an-older-probe", "used"])
def test_a_run_counts_where_the_release_is_used_or_that_is_not_known(uses: list[str]) -> None:
    assert exit_code(judged(*both("lora", uses)), WORDS) == 0


@pytest.mark.parametrize(("norm", "is_compared"), [(0.0, False), (0.5, True)])
def test_a_program_that_trains_nothing_says_nothing(norm: float, is_compared: bool) -> None:
    """A made-up model ends no completion, and all that is truncated is masked."""
    cells = both("grpo", ["peft", *WITHOUT_PEFT])
    for cell in cells:
        assert cell.record is not None
        for rank in cell.record.ranks:
            rank.numerics = Numerics(losses=[0.0] * 3, gradient_norms=[norm] * 3, learning_rates=[[1e-3]] * 3)
    comparison = judged(*cells)
    assert ("it trains nothing" not in headline(comparison)) is is_compared
    assert exit_code(comparison, WORDS) == (0 if is_compared else 4)


def going_on(version: str, goes_on: bool | None, *, wrote: str = "", more_bytes: int = 0) -> Result:
    """A run of a line that goes on from the files of ``wrote``; of the first line, if that is empty."""
    made = run(["peft"], more_bytes)
    for rank in made.ranks:
        rank.goes_on = goes_on
    found = with_peft(version, "second" if wrote else "first", made)
    line = f"CHECKPOINT_OF=peft-{wrote} python resume.py" if wrote else "python train.py"
    found.cell.parameters["program"] = line
    return found


def both_lines(old: bool | None, new: bool | None, more_bytes: int = 0) -> Comparison:
    first = [going_on(version, None) for version in ("0.21.1", "0.21.2")]
    second = going_on("0.21.1", old, wrote="0.21.1"), going_on("0.21.2", new, wrote="0.21.1", more_bytes=more_bytes)
    return judged(*first, *second)


RESUMES_NOTHING = "it reads no checkpoint that the first line has written, so it resumes nothing"


@pytest.mark.parametrize(("old", "new"), [(False, False), (True, False), (False, True)])
def test_a_second_line_that_resumes_nothing_is_no_pass(old: bool, new: bool) -> None:
    comparison = both_lines(old, new)
    assert headline(comparison) == f"Nothing could be compared of what goes on from a checkpoint: {RESUMES_NOTHING}"
    assert exit_code(comparison, WORDS) == 4


@pytest.mark.parametrize("known", [True, None])
def test_a_second_line_that_resumes_or_may_is_compared(known: bool | None) -> None:
    comparison = both_lines(known, known)
    assert headline(comparison) == "Nothing is worse than the baseline"
    assert exit_code(comparison, WORDS) == 0


def test_what_differs_between_lines_that_both_begin_anew_is_no_finding_of_resuming() -> None:
    assert both_lines(False, False, more_bytes=256 * MIB).findings == ()
    assert both_lines(True, False, more_bytes=256 * MIB).findings != ()


CRASH = Failed("load", "KeyError: 'epoch'", "KeyError: 'epoch'")


@pytest.mark.parametrize(
    ("outcomes", "is_said"), [((CRASH, CRASH), True), ((None, CRASH), False), ((CRASH, None), False)]
)
def test_second_lines_that_all_fail_compare_nothing_and_one_beside_a_pass_says_something(
    outcomes: tuple[Failed | None, Failed | None], *, is_said: bool
) -> None:
    first = [going_on(version, None) for version in ("0.21.1", "0.21.2")]
    second = [
        one if failed is None else msgspec.structs.replace(one, outcome=failed, record=None)
        for version, failed in zip(("0.21.1", "0.21.2"), outcomes, strict=True)
        for one in [going_on(version, True, wrote="0.21.1")]
    ]
    assert bool(judged(*first, *second).why_nothing_goes_on) is is_said
