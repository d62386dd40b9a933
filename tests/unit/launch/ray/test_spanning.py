"""What several machines measured of one cell becomes what the cell measured."""

from __future__ import annotations

import pytest

from dsregress.launch.contract import Ended
from dsregress.launch.ray.spanning import merge_parts
from dsregress.model import Failed, Outcome, OutOfMemory, Passed, TimedOut
from dsregress.probe.border.wire import (
    Clocks,
    Detail,
    Explanation,
    Moment,
    RankRecord,
    RunRecord,
    Stretch,
)


def part(first: int, rounds: list[float], outcome: Outcome | None = None, **more: object) -> Ended:
    outcome = outcome or Passed()
    told = "passed" if outcome == Passed() else "failed"
    record = RunRecord(
        outcome=told,
        signature=getattr(outcome, "signature", ""),
        world_size=4,
        ranks=[RankRecord(rank=first), RankRecord(rank=first + 1)],
        round_s=rounds,
    )
    return Ended(outcome=outcome, record=record, **more)  # type: ignore[arg-type]


def test_ranks_come_in_order_and_the_slowest_machine_says_how_long_a_round_took() -> None:
    whole = merge_parts([part(0, [1.0, 5.0], detail=Detail(), duration_s=3.0), part(2, [2.0, 4.0], duration_s=4.0)])
    assert whole.record is not None
    assert [rank.rank for rank in whole.record.ranks] == [0, 1, 2, 3]
    assert whole.record.round_s == [2.0, 5.0]
    assert (whole.outcome, whole.detail, whole.duration_s) == (Passed(), Detail(), 4.0)


@pytest.mark.parametrize(
    ("outcomes", "cause"),
    [
        ((Failed(stage="step", signature="RuntimeError: Connection closed by peer"), OutOfMemory(phase="backward")), 1),
        ((Failed(stage="step", signature="gloo: timed out"), Failed(stage="step", signature="KeyError: 'x'")), 1),
        (
            (
                Failed(stage="step", signature="RuntimeError: NCCL error in: ProcessGroupNCCL.cpp:1275, remote error"),
                Failed(stage="step", signature="KeyError: 'x'"),
            ),
            1,
        ),
        ((Failed(stage="step", signature="KeyError: 'x'"), TimedOut(stage="step", limit_s=4)), 0),
        ((Passed(), Failed(stage="step", signature="gloo: Connection reset")), 1),
    ],
)
def test_the_end_is_that_of_the_part_that_failed_by_itself(outcomes: tuple[Outcome, Outcome], cause: int) -> None:
    whole = merge_parts([part(0, [], outcomes[0]), part(2, [], outcomes[1])])
    assert whole.outcome == outcomes[cause]
    assert whole.record is not None
    assert whole.record.signature == getattr(outcomes[cause], "signature", "")


def test_a_part_that_left_no_record_takes_none_from_the_others() -> None:
    whole = merge_parts([part(0, [1.0]), Ended(outcome=Failed(stage="harness", signature="no record was left"))])
    assert whole.record is not None
    assert [rank.rank for rank in whole.record.ranks] == [0, 1]


def test_a_round_is_reported_by_the_gpu_that_ran_lowest_and_a_throttled_one_first() -> None:
    fast, slow, hot = (
        Clocks(sm_mhz=mhz, memory_mhz=1, reasons=[], throttled=mhz == 1500) for mhz in (1900, 1200, 1500)
    )
    one, other = part(0, [1.0, 1.0]), part(2, [1.0, 1.0])
    assert one.record is not None
    assert other.record is not None
    one.record.clocks, other.record.clocks = [fast, slow], [slow, hot]
    found = merge_parts([one, other]).record
    assert found is not None
    assert found.clocks == [slow, hot]


def test_each_moment_is_reported_by_the_machine_whose_rank_holds_most() -> None:
    here = Explanation({"a": Moment(0, 5, []), "b": Moment(0, 9, [])}, [Stretch("forward", [[0, 9]])])
    there = Explanation({"a": Moment(3, 7, [])}, [Stretch("forward", [[0, 7]])], note="one is missing")
    whole = merge_parts([part(0, [], explanation=here), part(2, [], explanation=there)]).explanation
    assert whole == Explanation(
        {"a": Moment(3, 7, []), "b": Moment(0, 9, [])}, [Stretch("forward", [[0, 9]])], "one is missing"
    )
