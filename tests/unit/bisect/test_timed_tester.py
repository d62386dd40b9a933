"""Versions that are timed beside both ends: what is said of their times, and when a search by time gives up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from dsregress.bisect.plan import Candidate, SearchPlan
from dsregress.bisect.timed_tester import AT_ONCE, TimedTester
from dsregress.config.settings import Settings
from dsregress.errors import NothingMeasured
from dsregress.model import Failed, Result, Verdict
from tests.builders import synthetic

GOOD, MIDDLE, BAD = "0.15.0", "0.15.4", "0.16.0"
FAILED = Failed(stage="backward", signature="RuntimeError: no")


class _Runner:
    """Rounds of these seconds, in every session; None is a version that fails."""

    def __init__(self, seconds: Mapping[str, Sequence[float] | None]) -> None:
        self.settings, self.sessions = Settings(), 0
        self._seconds = seconds

    def stored(self, version: Candidate) -> Sequence[Result]:
        return ()

    def measure(self, versions: Sequence[Candidate], rounds: int) -> list[Result]:
        assert rounds == AT_ONCE
        self.sessions += 1
        return [self._result(version.name) for version in versions]

    def _result(self, name: str) -> Result:
        result = synthetic.result(name)
        seconds = self._seconds[name]
        if seconds is None:
            return msgspec.structs.replace(result, outcome=FAILED, record=None)
        assert result.record is not None
        result.record.round_s = list(seconds)
        return result


def timed(seconds: Mapping[str, Sequence[float] | None]) -> tuple[TimedTester, _Runner]:
    """A tester that has timed the ends and then the version between them."""
    runner = _Runner(seconds)
    plan = SearchPlan(
        kind="releases",
        package="deepspeed",
        versions=tuple(Candidate(name=name, stack=synthetic.stack(name)) for name in (GOOD, MIDDLE, BAD)),
        question=None,
        to=Verdict.BAD,
    )
    untyped: Any = runner
    tester = TimedTester(plan, untyped)
    tester.test([0, 2])
    tester.test([1])
    return tester, runner


def test_a_version_as_slow_as_the_bad_end_is_bad_and_its_time_is_the_median_round() -> None:
    slow = [2.0] * 6 + [2.2] * 6
    tester, runner = timed({GOOD: [1.0] * AT_ONCE, MIDDLE: slow, BAD: [2.0] * AT_ONCE})
    answer = tester.answers()[1]
    assert (answer.verdict, runner.sessions) == (Verdict.BAD, 2)
    assert answer.observation.value == pytest.approx(2.1)
    assert answer.observation.text == f"2.10 s, 2.10 times that of {GOOD} in {AT_ONCE} rounds"


def test_a_version_that_cannot_be_timed_is_unknown() -> None:
    tester, _ = timed({GOOD: [1.0] * AT_ONCE, MIDDLE: None, BAD: [2.0] * AT_ONCE})
    assert tester.answers()[1].verdict is Verdict.UNKNOWN
    assert tester.answers()[1].observation.text == "failed in backward: RuntimeError: no"


@pytest.mark.parametrize("end", [GOOD, BAD])
def test_an_end_that_cannot_be_timed_is_named_with_its_reason(end: str) -> None:
    tester, _ = timed({GOOD: [1.0] * AT_ONCE, MIDDLE: [1.0] * AT_ONCE, BAD: [2.0] * AT_ONCE, end: None})
    with pytest.raises(NothingMeasured, match=rf"{end} cannot be timed: failed in backward: RuntimeError: no"):
        tester.answers()
