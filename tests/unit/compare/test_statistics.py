"""The promises about step time, held against simulated noise that is worse than a real machine's."""

from __future__ import annotations

import numpy as np
import pytest

from dsregress.compare import Thresholds, compare, statistics, step_times
from dsregress.config.thresholds import LEAST_ROUNDS, LOOKS
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
        low, high = statistics.interval(statistics.means(logs[:, :rounds]))
        held &= (low <= 1.3) & (high >= 1.3)
    assert held.mean() > statistics.CONFIDENCE


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_chance_alone_is_significant_at_any_look_no_more_often_than_the_p_value_says(noise: str) -> None:
    logs = log_ratios(simulated(20_000, LOOKS[-1], noise=noise))
    p = np.min([statistics.p_values(statistics.means(logs[:, :rounds])) for rounds in LOOKS], axis=0)
    assert np.mean(p < 0.05) < 0.05
    assert np.mean(p < 0.002) < 0.003  # what Holm's correction asks for in a report of 25 step times


def test_the_interval_agrees_with_the_p_value_and_with_an_independent_implementation() -> None:
    from scipy import stats  # which takes a second and a half to import

    logs = log_ratios(simulated(200, 15, noise="heavy tails", slowdown=1.1))
    means = statistics.means(logs)
    low, high = statistics.interval(means)
    p = statistics.p_values(means)
    assert ((p < 0.05) == ((low > 1) | (high < 1))).all()
    expected = stats.ttest_ind(logs[0], np.zeros(1000), trim=statistics.TRIMMED, equal_var=False).pvalue
    assert p[0] / len(LOOKS) == pytest.approx(expected, rel=0.01)


def test_drift_that_both_sides_share_cancels() -> None:
    seconds = simulated(1, 9, noise="normal")
    seconds[:, 1] = seconds[:, 0]
    assert statistics.ratio(statistics.means(log_ratios(seconds)))[0] == 1.0


def test_rounds_without_any_noise_are_distinguished() -> None:
    p = statistics.p_values(statistics.means(np.array([[0.1] * 6, [0.0] * 6])))
    assert p.tolist() == pytest.approx([0.0, 1.0])


def sessions(count: int, releases: int, *, noise: str, more_of_first: float = 0.0, seed: int = 0) -> statistics.Floats:
    """Log ratios as (session, release, round), of releases that take as long as their session's baseline; of the first
    release with so much more noise."""
    logs = np.log(simulated(count, LOOKS[-1], noise=noise, seed=seed, sides=releases + 1))
    logs[:, 0] += np.random.default_rng(seed + 1).normal(0, more_of_first, (count, LOOKS[-1]))
    return np.asarray(logs[:, :-1] - logs[:, -1:])


def held_and_least_p(logs: statistics.Floats) -> tuple[statistics.Floats, statistics.Floats]:
    """Whether the interval of each release held at the first six looks together, and its least p-value at any of them."""
    held, least = np.ones(logs.shape[:2], dtype=bool), np.ones(logs.shape[:2])
    for at, session in enumerate(logs):
        for rounds in LOOKS[:6]:
            means = statistics.means_of_session(list(session[:, :rounds]))
            low, high = statistics.interval(means)
            held[at] &= (low <= 1.0) & (high >= 1.0)
            least[at] = np.minimum(least[at], statistics.p_values(means))
    return held, least


@pytest.mark.slow
@pytest.mark.parametrize("releases", [statistics.LEAST_SHARED, 9])
@pytest.mark.parametrize("noise", NOISES)
def test_what_releases_say_of_each_others_scatter_breaks_no_promise(noise: str, releases: int) -> None:
    held, least = held_and_least_p(sessions(6_000 // releases, releases, noise=noise))
    assert held.mean() > statistics.CONFIDENCE
    assert np.mean(least < 0.05) < 0.05
    assert np.mean(least < 0.002) < 0.003


@pytest.mark.slow
@pytest.mark.parametrize("releases", [statistics.LEAST_SHARED, 9])
def test_a_release_whose_ratios_scatter_twice_as_much_as_the_others_keeps_its_promises(releases: int) -> None:
    held, least = held_and_least_p(sessions(1_500, releases, noise="normal", more_of_first=0.073))
    assert held[:, 0].mean() > statistics.CONFIDENCE - 0.01
    assert np.mean(least[:, 0] < 0.05) < 0.05 + 0.01
    assert np.mean(least[:, 0] < 0.002) < 3 * 0.003
    assert held.mean() > statistics.CONFIDENCE


def test_releases_that_scatter_alike_are_decided_by_fewer_rounds() -> None:
    logs = sessions(40, 9, noise="normal")[:, :, : LOOKS[0]]
    alone, together = [], []
    for session in logs:
        for found, means in (
            (alone, statistics.means(session)),
            (together, statistics.means_of_session(list(session))),
        ):
            low, high = statistics.interval(means)
            found.append(np.log(high / low))
    assert np.median(np.array(together) / np.array(alone)) < 0.85


def test_releases_that_scatter_differently_are_left_to_their_own_rounds() -> None:
    logs = sessions(1, 6, noise="normal")[0] * (10.0 ** np.arange(6))[:, None]
    own, shared = statistics.means(logs), statistics.means_of_session(list(logs))
    assert shared.error == pytest.approx(own.error, rel=0.2)
    assert (shared.freedom - own.freedom < 1).all()


def test_few_releases_say_nothing_of_each_others_scatter() -> None:
    logs = sessions(1, statistics.LEAST_SHARED - 1, noise="normal")[0]
    own, shared = statistics.means(logs), statistics.means_of_session(list(logs))
    assert [one.tolist() for one in shared] == [one.tolist() for one in own]


def test_a_release_is_told_nothing_of_rounds_that_were_run_after_its_last() -> None:
    logs = sessions(1, 6, noise="heavy tails")[0]
    stopped = [8, 8, 11, 15, 20, 27]
    stored = statistics.means_of_session([row[:rounds] for row, rounds in zip(logs, stopped, strict=True)])
    for at, rounds in enumerate(stopped):
        then = statistics.means_of_session([row[: min(rounds, last)] for row, last in zip(logs, stopped, strict=True)])
        assert [one[at] for one in stored] == [one[at] for one in then]


def test_rounds_without_scatter_say_nothing_of_the_scatter_of_others() -> None:
    logs = sessions(1, 6, noise="normal")[0][:, : LOOKS[0]]
    logs[0] = 0.1
    with_it, without = statistics.means_of_session(list(logs)), statistics.means_of_session(list(logs[1:]))
    assert (with_it.error[0], statistics.p_values(with_it)[0]) == (0.0, 0.0)
    assert with_it.error[1:].tolist() == without.error.tolist()


@pytest.mark.parametrize("half", [0.01, 0.6, 2.5, 40.0, 1e5])
def test_the_inverse_of_trigamma_is_its_inverse(half: float) -> None:
    from scipy import special

    assert statistics._inverse_trigamma(float(special.polygamma(1, half))) == pytest.approx(half, rel=1e-6)


def test_holm_corrects_as_published() -> None:
    assert statistics.holm(np.array([0.01, 0.04, 0.03])).tolist() == pytest.approx([0.03, 0.06, 0.06])


def test_rounds_that_scatter_without_bound_still_have_an_interval() -> None:
    logs = np.array([[-100.0, 90.0, -80.0, 100.0, 95.0, -99.0, 1.0, 2.0]])
    low, high = statistics.interval(statistics.means(logs))
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


def rounds_until_decided(own: statistics.Floats, baseline: statistics.Floats) -> int:
    """By a pair that has the session to itself."""
    for rounds in LOOKS:
        if step_times.decided({"own": own[:rounds].tolist()}, baseline[:rounds].tolist(), 36, Thresholds()):
            return rounds
    return LOOKS[-1]


def test_a_step_that_takes_ten_percent_longer_is_found_once_there_are_rounds_enough() -> None:
    verdicts = []
    for seconds in simulated(40, LOOKS[-1], noise="normal", slowdown=1.1):
        rounds = rounds_until_decided(*seconds)
        base, slowed = synthetic.record(ranks=1), synthetic.record(ranks=1)
        slowed.round_s, base.round_s = seconds[:, :rounds].tolist()
        results = [synthetic.result("0.15.0", run=base), synthetic.result("0.15.1", run=slowed)]
        comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda result: None)
        verdicts += [time.verdict for time in comparison.step_times]
    assert verdicts.count("slower") >= 38


def test_the_fewest_pairs_that_thresholds_allow_have_an_interval() -> None:
    logs = np.log(np.array([[1.1, 1.2]])[:, :LEAST_ROUNDS])
    means = statistics.means(logs)
    low, high = statistics.interval(means)
    assert 0 < low[0] < statistics.ratio(means)[0] < high[0]
    assert 0 < statistics.p_values(means)[0] <= 1


def test_a_processor_whose_logarithms_differ_in_the_last_digit_has_the_same_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = simulated(200, 9, noise="heavy tails")

    def figures() -> list[list[float]]:
        means = statistics.means_of_session(list(log_ratios(seconds)))
        of_each = (statistics.ratio(means), *statistics.interval(means), statistics.p_values(means))
        return [one.tolist() for one in of_each]

    here, log = figures(), np.log
    monkeypatch.setattr(np, "log", lambda values: np.nextafter(log(values), np.inf))
    assert figures() == here
