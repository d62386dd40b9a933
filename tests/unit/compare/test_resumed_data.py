"""Of two releases that read the same files, the one that goes on with the data that are next is right."""

from __future__ import annotations

import pytest

from dsregress.probe.border.wire import Numerics, ResumedData, RunRecord
from tests.builders import synthetic
from tests.unit.compare.two_runs import judged, said


def run(*resumed: ResumedData | None, losses: tuple[float, ...] = (2.3, 2.2)) -> RunRecord:
    made = synthetic.record(ranks=len(resumed))
    for rank, one in zip(made.ranks, resumed, strict=True):
        rank.resumed = one
    made.ranks[0].numerics = Numerics(losses=list(losses), learning_rates=[[1e-4]] * 2)
    return made


RIGHT, AGAIN, OTHERS = ResumedData(step=3, due=3), ResumedData(step=1, due=3), ResumedData(step=0, due=3)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [(AGAIN, "it is fed those of step 1, not 3"), (OTHERS, "it is fed others than those of step 3")],
)
def test_the_release_that_does_not_go_on_with_the_next_data_is_wrong(wrong: ResumedData, told: str) -> None:
    assert said(run(RIGHT), run(wrong, losses=(5.0, 4.0))) == [("wrong", told)]
    assert said(run(wrong), run(RIGHT, losses=(5.0, 4.0))) == [("wrong", told)]
    (found,) = judged(run(wrong), run(RIGHT)).findings
    assert found.stack == synthetic.stack("0.15.0").id


def test_one_rank_that_is_wrong_makes_a_release_wrong() -> None:
    assert said(run(RIGHT, RIGHT), run(RIGHT, AGAIN)) == [("wrong", "it is fed those of step 1, not 3")]


@pytest.mark.parametrize("both", [RIGHT, AGAIN, None])
def test_what_both_do_is_no_fault_of_a_release(both: ResumedData | None) -> None:
    assert said(run(both), run(both)) == []


def test_nothing_is_told_where_one_of_them_is_not_known() -> None:
    assert said(run(None), run(AGAIN)) == []
