"""The promises about step time, held against simulated noise that is worse than a real machine's."""

from __future__ import annotations

import numpy as np
import pytest

from harness.compare import Thresholds, compare, statistics, timing
from harness.config.thresholds import LEAST_ROUNDS, LOOKS
from tests.builders import synthetic


def simulated(
    comparisons: int, pairs: int, *, noise: str, slowdown: float = 1.0, seed: int = 0, sides: int = 2
) -> statistics.Floats:
    """Seconds as (comparison, side, round): drift that all sides share, noise that they do not."""
    rng = np.random.default_rng(seed)
    drift = np.cumsum(rng.normal(0, 0.03, (comparisons, 1, pairs)), axis=2)
    shape = (comparisons, sides, pairs)
    own = {
        "normal": lambda: rng.normal(0, 0.03, shape),
        "heavy tails": lambda: np.clip(rng.standard_t(2, shape) * 0.03, -3, 3),
        "disturbed rounds": lambda: (
            rng.normal(0, 0.02, shape) + (rng.random(shape) < 0.1) * rng.exponential(1.0, shape)
        ),
    }[noise]()
    seconds = 0.5 * np.exp(drift + own)
    seconds[:, 0] *= slowdown
    return np.asarray(seconds)


def log_ratios(seconds: statistics.Floats) -> statistics.Floats:
    return statistics.log_ratios(seconds[:, 0], seconds[:, 1])


NOISES = ["normal", "heavy tails", "disturbed rounds"]


@pytest.mark.parametrize("noise", NOISES)
def test_the_interval_holds_the_true_ratio_at_all_looks_together(noise: str) -> None:
    logs = log_ratios(simulated(4_000, LOOKS[-1], noise=noise, slowdown=1.3))
    held = np.ones(len(logs), dtype=bool)
    for rounds in LOOKS:
        low, high = statistics.interval(logs[:, :rounds])
        held &= (low <= 1.3) & (high >= 1.3)
    assert held.mean() > statistics.CONFIDENCE


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_chance_alone_is_significant_at_any_look_no_more_often_than_the_p_value_says(noise: str) -> None:
    logs = log_ratios(simulated(20_000, LOOKS[-1], noise=noise))
    p = np.min([statistics.p_values(logs[:, :rounds]) for rounds in LOOKS], axis=0)
    assert np.mean(p < 0.05) < 0.05
    assert np.mean(p < 0.002) < 0.003  # what Holm's correction asks for in a report of 25 step times


def test_the_interval_agrees_with_the_p_value_and_with_an_independent_implementation() -> None:
    from scipy import stats  # which takes a second and a half to import

    logs = log_ratios(simulated(200, 15, noise="heavy tails", slowdown=1.1))
    low, high = statistics.interval(logs)
    p = statistics.p_values(logs)
    assert ((p < 0.05) == ((low > 1) | (high < 1))).all()
    expected = stats.ttest_ind(logs[0], np.zeros(1000), trim=statistics.TRIMMED, equal_var=False).pvalue
    assert p[0] / len(LOOKS) == pytest.approx(expected, rel=0.01)


def test_drift_that_both_sides_share_cancels() -> None:
    seconds = simulated(1, 9, noise="normal")
    seconds[:, 1] = seconds[:, 0]
    assert statistics.mean_ratio(log_ratios(seconds))[0] == 1.0


def test_rounds_without_any_noise_are_distinguished() -> None:
    p = statistics.p_values(np.array([[0.1] * 6, [0.0] * 6]))
    assert p.tolist() == pytest.approx([0.0, 1.0])


def test_holm_corrects_as_published() -> None:
    assert statistics.holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])


def test_rounds_that_scatter_without_bound_still_have_an_interval() -> None:
    low, high = statistics.interval(np.array([[-100.0, 90.0, -80.0, 100.0, 95.0, -99.0, 1.0, 2.0]]))
    assert 0 < low[0] < high[0] < np.inf


def reports(count: int, stacks: int, *, noise: str, slowdown: float) -> list[set[str]]:
    """Verdicts on step time of ``count`` simulated reports; the last stack is slowed down."""
    verdicts = []
    for seed in range(count):
        sides = simulated(1, 9, noise=noise, seed=seed, sides=stacks)[0]
        results = []
        for at in range(stacks):
            run = synthetic.record(ranks=1)
            factor = slowdown if at == stacks - 1 else 1.0
            run.round_s = [float(s) * factor for s in sides[at]]
            results.append(synthetic.result(f"0.15.{at}", run=run))
        comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda result: None)
        verdicts.append({t.stack for t in comparison.step_times if t.verdict in ("slower", "faster")})
    return verdicts


@pytest.mark.parametrize("noise", NOISES)
def test_reports_in_which_nothing_differs_rarely_cry_wolf(noise: str) -> None:
    alarms = reports(60, 10, noise=noise, slowdown=1.0)
    assert sum(bool(found) for found in alarms) <= 60 * 0.05 + 3  # three: the luck of 60 draws


def test_a_step_that_takes_thirty_percent_longer_is_found() -> None:
    found = reports(20, 10, noise="normal", slowdown=1.3)
    slowed = synthetic.stack("0.15.9").id
    assert sum(slowed in one for one in found) >= 18


def test_a_step_that_takes_ten_percent_longer_is_found_once_there_are_rounds_enough() -> None:
    verdicts = []
    for seconds in simulated(40, LOOKS[-1], noise="normal", slowdown=1.1):
        decided = (rounds for rounds in LOOKS if timing.is_decided(*seconds[:, :rounds].tolist(), 36, Thresholds()))
        rounds = next(decided, LOOKS[-1])
        base, slowed = synthetic.record(ranks=1), synthetic.record(ranks=1)
        slowed.round_s, base.round_s = seconds[:, :rounds].tolist()
        results = [synthetic.result("0.15.0", run=base), synthetic.result("0.15.1", run=slowed)]
        comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda result: None)
        verdicts += [time.verdict for time in comparison.step_times]
    assert verdicts.count("slower") >= 38


def test_the_fewest_pairs_that_thresholds_allow_have_an_interval() -> None:
    logs = np.log(np.array([[1.1, 1.2]])[:, :LEAST_ROUNDS])
    low, high = statistics.interval(logs)
    assert 0 < low[0] < statistics.mean_ratio(logs)[0] < high[0]
    assert 0 < statistics.p_values(logs)[0] <= 1


def test_a_processor_whose_logarithms_differ_in_the_last_digit_has_the_same_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = simulated(200, 9, noise="heavy tails")

    def figures() -> list[list[float]]:
        logs = log_ratios(seconds)
        of_each = (statistics.mean_ratio(logs), *statistics.interval(logs), statistics.p_values(logs))
        return [one.tolist() for one in of_each]

    here, log = figures(), np.log
    monkeypatch.setattr(np, "log", lambda values: np.nextafter(log(values), np.inf))
    assert figures() == here
