"""Which of the faults that two releases are told apart by have one cause."""

from __future__ import annotations

from typing import Any

import msgspec

from dsregress.bisect.questions import Question
from dsregress.explore.causes import by_cause
from dsregress.explore.follow_up import Change, Followed
from dsregress.explore.release_faults import Fault
from dsregress.explore.space import simplest_row
from dsregress.model import Finding
from tests.builders.cells import stack

BEGAN = Change(before=stack("0.18.2"), after=stack("0.18.3"), is_exact=True)
LATER = Change(before=stack("0.18.3"), after=stack("0.18.4"), is_exact=True)
OPEN = msgspec.structs.replace(BEGAN, is_exact=False)

HELD = Question("device_retained_bytes", "backward")
CRASH = Question("outcome", "", "TypeError: wait() got")


def fault(question: Question, change: Change | None = None, **needs: Any) -> Fault:
    finding = Finding(
        stack="", scenario="", variant="", device="cpu", metric=question.metric, phase=question.phase,
        kind="regression", value=2, baseline_value=1, ratio=2.0, unit="", significant=True, relevant=True, sentence="",
    )  # fmt: skip
    return Fault(
        stack=stack("0.18.3"),
        other=stack("0.18.2"),
        question=question,
        finding=finding,
        parameters={**simplest_row(), **needs},
        variant="",
        is_reduced=True,
        followed=Followed(change=change),
    )


def sizes(*faults: Fault) -> list[int]:
    return [len(cause) for cause in by_cause(faults)]


def test_what_is_worse_by_one_change_with_a_value_in_common_has_one_cause() -> None:
    between = fault(HELD, BEGAN, zero_stage=3, forward_between=True)
    twice = fault(HELD, BEGAN, zero_stage=3, objective="two_runs")
    assert sizes(between, twice) == [2]
    assert sizes(between, fault(Question("device_excess_bytes", "backward"), BEGAN, zero_stage=3)) == [2]


def test_another_release_another_kind_or_no_value_in_common_is_another_cause() -> None:
    one = fault(HELD, BEGAN, zero_stage=3)
    assert sizes(one, fault(HELD, LATER, zero_stage=3)) == [1, 1]
    assert sizes(one, fault(Question("gradient_norm_error"), BEGAN, zero_stage=3)) == [1, 1]
    assert sizes(one, fault(Question("device_retained_bytes", "init"), BEGAN, zero_stage=3)) == [1, 1]
    assert sizes(one, fault(HELD, BEGAN, offload_optimizer=True)) == [1, 1]


def test_without_a_release_that_is_known_they_stay_apart() -> None:
    assert sizes(fault(HELD, OPEN, zero_stage=3), fault(HELD, OPEN, zero_stage=3, evaluate=True)) == [1, 1]


def test_one_error_is_one_cause_unless_it_came_in_different_releases() -> None:
    assert sizes(fault(CRASH, BEGAN, checkpoint=True), fault(CRASH, None, exported="zero_to_fp32")) == [2]
    assert sizes(fault(CRASH, BEGAN, checkpoint=True), fault(CRASH, LATER, exported="zero_to_fp32")) == [1, 1]
    other = Question("outcome", "", "ValueError")
    assert sizes(fault(CRASH, None, checkpoint=True), fault(other, None, checkpoint=True)) == [1, 1]


def test_faults_of_different_releases_are_apart() -> None:
    one = fault(CRASH)
    older = msgspec.structs.replace(one, stack=one.other, other=one.stack)
    assert [len(cause) for cause in by_cause([one, older])] == [1, 1]
