"""The first line of a report: the release to use, and for which workloads not."""

from __future__ import annotations

import msgspec
import pytest

from dsregress.model import Result, Skipped
from dsregress.report.context import report_context
from dsregress.report.report_view import report_view
from tests.builders.known_runs import QUARTER, compared, ran

OTHER = "zero_stage=1"
CRASH = "ValueError: it cannot be built (x.py:f)"


def answer(*results: Result) -> str:
    return report_view(report_context(compared(*results))).screen.recommendation


def other(version: str, *, crash: str = "", error: float = 0.2) -> Result:
    """A run of another workload."""
    return ran(version, OTHER, crash=crash, error=error)


def test_the_newest_release_is_named_if_nothing_rules_it_out() -> None:
    fixed = ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30), ran("0.19.8", QUARTER)
    assert answer(*fixed) == "Use deepspeed 0.19.8."


def test_an_older_release_is_named_if_the_newest_is_ruled_out_everywhere() -> None:
    assert answer(other("0.18.2"), other("0.18.9", crash=CRASH)) == "Of these releases, use deepspeed 0.18.2."


def test_a_release_that_only_an_advisory_rules_out_is_not_named() -> None:
    """DSR-2026-0002 is of ZeRO-2 with accumulation in 0.18.2; the run was right."""
    assert answer(ran("0.18.2", QUARTER), ran("0.18.3", QUARTER, error=30)) == ""


def test_what_rules_it_out_on_some_workloads_is_named() -> None:
    runs = [
        *(ran(one, QUARTER, crash=CRASH if one == "0.19.8" else "") for one in ("0.18.2", "0.19.8")),
        *(other(one) for one in ("0.18.2", "0.19.8")),
        *(ran(one, "zero_stage=2") for one in ("0.18.2", "0.19.8")),
    ]
    assert answer(*runs) == "Use deepspeed 0.19.8; not for the workloads of 1."


def test_an_older_release_with_hardly_any_results_does_not_win() -> None:
    """Only the baseline was measured on all workloads, as in a bundle of single questions."""
    old = [ran("0.15.0", one) for one in (QUARTER, OTHER, "zero_stage=2", "zero_stage=0")]
    assert answer(*old, ran("0.18.3", QUARTER, error=30), ran("0.19.8", QUARTER)) == "Use deepspeed 0.19.8."


def test_a_release_without_a_verdict_on_a_workload_says_so() -> None:
    skipped = msgspec.structs.replace(other("0.19.8"), outcome=Skipped("not enough memory"))
    measured = [ran("0.15.0", QUARTER), ran("0.18.3", QUARTER, error=30), ran("0.19.8", QUARTER), other("0.15.0")]
    assert answer(*measured, skipped) == "Use deepspeed 0.19.8; 1 workload has no verdict."


@pytest.mark.parametrize("runs", [[ran("0.18.2", QUARTER)], [ran("0.18.2", QUARTER), ran("0.18.3", QUARTER)]])
def test_there_is_no_answer_without_a_problem(runs: list[Result]) -> None:
    assert answer(*runs) == ""


def test_there_is_no_answer_if_every_release_is_ruled_out() -> None:
    assert answer(*(ran(one, QUARTER, crash=CRASH) for one in ("0.18.2", "0.18.3"))) == ""


def test_there_is_no_answer_if_other_packages_vary_too() -> None:
    old, new = ran("0.18.2", QUARTER, transformers="4.57.5"), ran("0.18.3", QUARTER, error=30)
    assert answer(old, new) == ""


def test_a_commit_is_no_release_to_use() -> None:
    assert answer(ran("0.18.2", QUARTER, error=30), ran("0.18.2+g1a2b3c4d5e6f", QUARTER)) == ""
