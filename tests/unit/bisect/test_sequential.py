"""The test that may be looked at after every round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsregress.bisect import sequential
from dsregress.bisect.sequential import RoundTimes
from dsregress.model import Verdict


def looked_at(rounds: list[RoundTimes]) -> Verdict:
    """The first answer of a test that is looked at after every round."""
    for count in range(1, len(rounds) + 1):
        if (answer := sequential.side(rounds[:count])) is not Verdict.UNKNOWN:
            return answer
    return Verdict.UNKNOWN


def drawn(rng: np.random.Generator, ratio: float, count: int) -> list[RoundTimes]:
    """Rounds of a noisy machine: the ends lie at 1 and 2, the version at ``ratio``; some rounds are disturbed tenfold."""
    noise = np.exp(rng.standard_t(2, size=(count, 3)) * 0.1)
    drift = np.exp(np.cumsum(rng.normal(0, 0.05, count)))[:, None]
    return [tuple(row) for row in (np.array([1.0, ratio, 2.0]) * noise * drift).tolist()]


def test_nine_unanimous_rounds_are_sure_and_eight_are_not() -> None:
    assert sequential.side([(1.0, 2.0, 2.0)] * 8) is Verdict.UNKNOWN
    assert sequential.side([(1.0, 2.0, 2.0)] * 9) is Verdict.BAD
    assert sequential.side([(1.0, 1.0, 2.0)] * 9) is Verdict.GOOD


def test_no_rounds_and_rounds_right_between_the_ends_say_nothing() -> None:
    assert sequential.side([]) is Verdict.UNKNOWN
    assert sequential.side([(1.0, 2.0, 4.0)] * 500) is Verdict.UNKNOWN


@settings(deadline=None)
@given(st.integers(0, 300))
def test_the_evidence_of_all_possible_rounds_averages_to_one_under_a_fair_coin(rounds: int) -> None:
    from scipy import stats  # which takes longer to import than all tests of this module run

    votes = np.arange(rounds + 1)
    chances = stats.binom.pmf(votes, rounds, 0.5)
    values = np.array([sequential.likelihood_ratio(int(k), rounds) for k in votes])
    assert float((chances * values).sum()) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.slow
def test_a_coin_that_is_looked_at_300_times_is_rarely_called_unfair() -> None:
    rng = np.random.default_rng(7)
    middle = float(np.sqrt(2))
    wrong = sum(looked_at(drawn(rng, middle, 300)) is not Verdict.UNKNOWN for _ in range(200))
    assert wrong <= 10  # two sides of 1 in 100 each would be 4 of 200


@pytest.mark.parametrize(
    ("ratio", "answer"), [(1.0, Verdict.GOOD), (2.0, Verdict.BAD), (1.2, Verdict.GOOD), (1.7, Verdict.BAD)]
)
def test_versions_like_an_end_are_decided_on_a_noisy_drifting_machine(ratio: float, answer: Verdict) -> None:
    rng = np.random.default_rng(3)
    assert {looked_at(drawn(rng, ratio, 96)) for _ in range(50)} == {answer}


def test_whether_ends_differ_is_asked_with_a_margin() -> None:
    one = [1.0] * 12
    assert sequential.slower(one, [1.5] * 12, 0.1) is Verdict.BAD
    assert sequential.slower(one, [1.05] * 12, 0.1) is Verdict.GOOD
    assert sequential.slower(one, [1.05, 1.2] * 6, 0.1) is Verdict.UNKNOWN
    assert sequential.ratio(one, [1.5] * 12) == pytest.approx(1.5)


def test_a_round_of_no_time_at_all_has_no_ratio() -> None:
    assert sequential.ratio([1.0, 0.0, 1.0], [3.0, 3.0, 0.0]) == pytest.approx(3.0)
    assert math.isnan(sequential.ratio([0.0], [1.0]))
