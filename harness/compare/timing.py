"""Step time: noisy, so a difference must first be told from chance, then from what the baseline differs from itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from harness.compare import statistics
from harness.compare.comparison import NotCompared, StepTime
from harness.compare.metrics import STEP_TIME
from harness.compare.pairs import Pair, finding
from harness.compare.statistics import Floats
from harness.config.thresholds import Thresholds
from harness.model import Finding
from harness.wording.quantities import quantity

#: A baseline's own rounds, split in two, must leave this many pairs to say anything about its noise.
CONTROL_PAIRS = 3

Rounds = tuple[float, ...]  #: seconds of the candidate's rounds, then of as many of the baseline's


class Ratios(msgspec.Struct, frozen=True, array_like=True):
    """Step times of some cells, before they are judged: a column for each quantity, as a hundred thousand of them travel
    between processes."""

    places: list[int]  #: of the cells, among all that were judged together
    pairs: list[int]  #: of rounds
    numbers: bytes  #: float64, a row each for ratio, low, high, p-value (not yet corrected), value_s and baseline_s

    def rows(self) -> Floats:
        """``numbers`` as an array of six rows."""
        return np.frombuffer(self.numbers).reshape(6, len(self.places))

    @classmethod
    def together(cls, parts: Iterable[tuple[int, Ratios]]) -> Ratios:
        """Those of parts, each with the place of its first cell among all."""
        parts = list(parts)
        return cls(
            [first + place for first, part in parts for place in part.places],
            [count for _, part in parts for count in part.pairs],
            np.concatenate([np.empty((6, 0)), *(part.rows() for _, part in parts)], axis=1).tobytes(),
        )


class Timed(msgspec.Struct, frozen=True):
    """Step times before they are judged: that takes those of all workloads."""

    times: Ratios
    control: Ratios
    untimed: list[NotCompared]


def estimate(pairs: Iterable[tuple[int, Pair]], thresholds: Thresholds) -> Timed:
    """Every step time, the controls, and what could not be timed. Pairs passed, and come with their places."""
    timed: list[int] = []
    rounds: list[Rounds] = []
    baselines: list[tuple[int, Pair]] = []
    silent: list[NotCompared] = []
    for place, pair in pairs:
        if pair.is_baseline:
            baselines.append((place, pair))
            continue
        usable, reason = _usable(pair, thresholds)
        if reason:
            silent.append(NotCompared(pair.stack, pair.workload, STEP_TIME.name, reason))
        elif usable:
            timed.append(place)
            rounds.append(usable)
    return Timed(_estimate(timed, rounds), _controls(baselines), silent)


def judge(
    raw: Ratios, control: Ratios, names: Sequence[tuple[str, str]], thresholds: Thresholds
) -> tuple[list[Finding], list[StepTime], list[StepTime], list[NotCompared]]:
    """Findings, every step time with its verdict, the controls, and what has no verdict for want of data.

    ``raw`` are all there are, and ``names`` the stack and the workload of each place.
    """
    controls = _told(control, control.rows(), ["control"] * len(control.places), names)
    own = {time.workload: time for time in controls}
    numbers = raw.rows().copy()
    ratio, low, high, p_values, _, _ = numbers
    p_values[:] = statistics.holm(p_values)
    noise = dict(zip(own, np.abs(np.log(control.rows()[0])).tolist(), strict=True))
    beyond_noise = np.abs(np.log(ratio)) > np.array([noise.get(names[place][1], 0.0) for place in raw.places])
    is_significant = (p_values < thresholds.time_false_alarm) & ((low > 1) | (high < 1)) & beyond_noise
    limit = 1 + thresholds.time_share
    verdicts = np.where((low > 1 / limit) & (high < limit), "same", "unknown").tolist()
    significant: list[int] = np.flatnonzero(is_significant).tolist()
    relevant = set()
    for at in significant:
        baseline_s = float(numbers[5, at])
        if STEP_TIME.relevant(baseline_s * float(ratio[at]), baseline_s, thresholds):
            relevant.add(at)
            verdicts[at] = "slower" if ratio[at] > 1 else "faster"
    times = _told(raw, numbers, verdicts, names)
    findings = [_finding(times[at], own.get(times[at].workload), relevant=at in relevant) for at in significant]
    silent = [
        NotCompared(
            time.stack,
            time.workload,
            STEP_TIME.name,
            f"not enough data to say whether its step takes longer ({time.pairs} rounds; ask for more with --rounds)",
        )
        for time in times
        if time.verdict == "unknown"
    ]
    return findings, times, controls, silent


def _told(raw: Ratios, numbers: Floats, verdicts: Sequence[str], names: Sequence[tuple[str, str]]) -> list[StepTime]:
    rows = zip(raw.places, raw.pairs, verdicts, *numbers.tolist(), strict=True)
    return [
        StepTime(
            stack=names[place][0],
            workload=names[place][1],
            ratio=ratio,
            low=low,
            high=high,
            pairs=pairs,
            value_s=value_s,
            baseline_s=baseline_s,
            p_value=p_value,
            verdict=verdict,
        )
        for place, pairs, verdict, ratio, low, high, p_value, value_s, baseline_s in rows
    ]


def _usable(pair: Pair, thresholds: Thresholds) -> tuple[Rounds, str]:
    """The rounds that can be paired, or why they cannot be."""
    if pair.base is None:
        return (), ""
    beside = pair.base_beside
    mine, theirs = pair.own.round_s, (beside or pair.base).round_s
    if not mine or not theirs:
        return (), "" if bool(mine) == bool(theirs) else "only one side was timed"
    if beside is None:
        return (), "timed in another session than the baseline; --fresh measures both together"
    here, there = pair.result.hardware, beside.result.hardware
    if here is not there and here != there:  # stored results share it
        return (), "timed on other hardware than the baseline"
    usable = _finite(mine, theirs)
    if len(usable) // 2 < thresholds.rounds:
        return (), f"{len(usable) // 2} rounds are too few to say anything about time (at least {thresholds.rounds})"
    return usable, ""


def _controls(baselines: Sequence[tuple[int, Pair]]) -> Ratios:
    """The baseline against itself: a second run where there is one, else its odd rounds against its even
    ones, neighbours in pairs."""
    kept, rounds = [], []
    for place, pair in baselines:
        own = pair.own.round_s
        again = pair.base_again.round_s if pair.base_again else ()
        usable = _finite(again, own) if again else _finite(own[1::2], own[0::2])
        if len(usable) // 2 >= CONTROL_PAIRS:
            kept.append(place)
            rounds.append(usable)
    return _estimate(kept, rounds)


def _estimate(places: list[int], rounds: Sequence[Rounds]) -> Ratios:
    """All ratios, computed together for each number of rounds, in the order given."""
    pairs = [len(usable) // 2 for usable in rounds]
    by_count: dict[int, list[int]] = defaultdict(list)
    for at, count in enumerate(pairs):
        by_count[count].append(at)
    numbers = np.empty((6, len(places)))
    for count, which in by_count.items():
        seconds = np.array([rounds[at] for at in which], dtype=np.float64).reshape(len(which), 2, count)
        logs = statistics.log_ratios(seconds[:, 0], seconds[:, 1])
        estimates = statistics.median_ratio(logs), *statistics.interval(logs), statistics.p_values(logs)
        numbers[:, which] = (*estimates, *np.median(seconds, axis=2).T)
    return Ratios(places, pairs, numbers.tobytes())


def _finding(time: StepTime, control: StepTime | None, *, relevant: bool) -> Finding:
    slower = time.ratio > 1
    evidence = [f"{time.pairs} interleaved rounds, p = {time.p_value:.2g} after correction for all comparisons"]
    if control is not None:
        evidence.append(f"the baseline against itself: {ratio_text(control)}")
    return finding(
        time.stack,
        time.workload,
        metric=STEP_TIME.name,
        phase="",
        kind="regression" if slower else "improvement",
        value=time.value_s,
        baseline_value=time.baseline_s,
        ratio=time.ratio,
        unit=STEP_TIME.unit,
        significant=True,
        relevant=relevant,
        message=f"{STEP_TIME.phrase.of_subject('a step', ratio_text(time), more=slower)}: "
        f"{quantity(time.baseline_s, 's')} -> {quantity(time.value_s, 's')}",
        interval=(time.low, time.high),
        evidence=tuple(evidence),
    )


def ratio_text(time: StepTime) -> str:
    """``1.31 [1.24, 1.40]``."""
    return f"{time.ratio:.2f} [{time.low:.2f}, {time.high:.2f}]"


def _finite(mine: Sequence[float], theirs: Sequence[float]) -> Rounds:
    if mine and len(mine) == len(theirs):
        both = (*mine, *theirs)
        if min(both) > 0 and math.isfinite(sum(both)):
            return both
    usable = [(a, b) for a, b in zip(mine, theirs, strict=False) if 0 < a < math.inf and 0 < b < math.inf]
    return (*(a for a, _ in usable), *(b for _, b in usable))
