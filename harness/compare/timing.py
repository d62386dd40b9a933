"""Step time: noisy, so a difference must first be told from chance, then from what the baseline differs from itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import msgspec
import numpy as np

from harness.compare import statistics
from harness.compare.comparison import NotCompared, StepTime
from harness.compare.metrics import BY_NAME
from harness.compare.pairs import Pair, finding
from harness.compare.wording import quantity
from harness.model import Finding
from harness.thresholds import Thresholds

METRIC = BY_NAME["step_time_s"]

#: A baseline's own rounds, split in two, must leave this many pairs to say anything about its noise.
CONTROL_PAIRS = 3

Rounds = tuple[float, ...]  #: seconds of the candidate's rounds, then of as many of the baseline's


class Timed(msgspec.Struct, frozen=True):
    """Step times before they are judged: that takes those of all workloads."""

    times: list[StepTime]  #: p-values not yet corrected
    control: list[StepTime]
    untimed: list[NotCompared]


def estimate(pairs: Sequence[Pair], thresholds: Thresholds) -> Timed:
    """Every step time, the controls, and what could not be timed. ``pairs`` passed."""
    timed: list[Pair] = []
    rounds: list[Rounds] = []
    silent: list[NotCompared] = []
    for pair in pairs:
        if pair.is_baseline:
            continue
        usable, reason = _usable(pair, thresholds)
        if reason:
            silent.append(NotCompared(pair.stack, pair.workload, METRIC.name, reason))
        elif usable:
            timed.append(pair)
            rounds.append(usable)
    return Timed(_estimate(timed, rounds), _controls([pair for pair in pairs if pair.is_baseline]), silent)


def judge(
    raw: Sequence[StepTime], control: Sequence[StepTime], thresholds: Thresholds
) -> tuple[list[Finding], list[StepTime], list[NotCompared]]:
    """Findings, every step time with its verdict, and what has none for want of data. ``raw`` are all there are."""
    controls = {time.workload: time for time in control}
    corrected = statistics.holm(np.array([time.p_value for time in raw])) if raw else np.empty(0)
    findings, times, silent = [], [], []
    for time, p_value in zip(raw, corrected.tolist(), strict=True):
        judged, found = _verdict(time, p_value, controls.get(time.workload), thresholds)
        times.append(judged)
        findings += found
        if judged.verdict == "unknown":
            silent.append(
                NotCompared(
                    time.stack,
                    time.workload,
                    METRIC.name,
                    f"not enough data to say whether its step takes longer ({judged.pairs} rounds; ask for more "
                    "with --rounds)",
                )
            )
    return findings, times, silent


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


def _controls(baselines: Sequence[Pair]) -> list[StepTime]:
    """The baseline against itself: a second run where there is one, else its odd rounds against its even
    ones, neighbours in pairs."""
    kept, rounds = [], []
    for pair in baselines:
        own = pair.own.round_s
        again = pair.base_again.round_s if pair.base_again else ()
        usable = _finite(again, own) if again else _finite(own[1::2], own[0::2])
        if len(usable) // 2 >= CONTROL_PAIRS:
            kept.append(pair)
            rounds.append(usable)
    return _estimate(kept, rounds)


def _estimate(pairs: Sequence[Pair], rounds: Sequence[Rounds]) -> list[StepTime]:
    """All ratios, computed together for each number of rounds, in the order given; p-values not yet corrected."""
    by_count: dict[int, list[int]] = defaultdict(list)
    for place, usable in enumerate(rounds):
        by_count[len(usable) // 2].append(place)
    found: dict[int, StepTime] = {}
    for count, places in by_count.items():
        seconds = np.array([rounds[place] for place in places], dtype=np.float64).reshape(len(places), 2, count)
        logs = statistics.log_ratios(seconds[:, 0], seconds[:, 1])
        columns = (statistics.median_ratio(logs), *statistics.interval(logs), statistics.p_values(logs))
        told = zip(places, *(column.tolist() for column in columns), np.median(seconds, axis=2).tolist(), strict=True)
        for place, ratio, low, high, p_value, (value_s, baseline_s) in told:
            found[place] = StepTime(
                stack=pairs[place].stack,
                workload=pairs[place].workload,
                ratio=ratio,
                low=low,
                high=high,
                pairs=count,
                value_s=value_s,
                baseline_s=baseline_s,
                p_value=p_value,
                verdict="control",
            )
    return [found[place] for place in range(len(pairs))]


def _verdict(
    time: StepTime, p_value: float, control: StepTime | None, thresholds: Thresholds
) -> tuple[StepTime, list[Finding]]:
    noise = abs(math.log(control.ratio)) if control else 0.0
    significant = (
        p_value < thresholds.time_false_alarm and (time.low > 1 or time.high < 1) and abs(math.log(time.ratio)) > noise
    )
    relevant = significant and METRIC.relevant(time.baseline_s * time.ratio, time.baseline_s, thresholds)
    limit = 1 + thresholds.time_share
    if relevant:
        verdict = "slower" if time.ratio > 1 else "faster"
    else:
        verdict = "same" if time.low > 1 / limit and time.high < limit else "unknown"
    judged = StepTime(
        stack=time.stack,
        workload=time.workload,
        ratio=time.ratio,
        low=time.low,
        high=time.high,
        pairs=time.pairs,
        value_s=time.value_s,
        baseline_s=time.baseline_s,
        p_value=p_value,
        verdict=verdict,
    )
    return judged, [_finding(judged, control, relevant=relevant)] if significant else []


def _finding(time: StepTime, control: StepTime | None, *, relevant: bool) -> Finding:
    slower = time.ratio > 1
    evidence = [f"{time.pairs} interleaved rounds, p = {time.p_value:.2g} after correction for all comparisons"]
    if control is not None:
        evidence.append(f"the baseline against itself: {ratio_text(control)}")
    return finding(
        time.stack,
        time.workload,
        metric=METRIC.name,
        phase="",
        kind="regression" if slower else "improvement",
        value=time.value_s,
        baseline_value=time.baseline_s,
        ratio=time.ratio,
        unit="s",
        significant=True,
        relevant=relevant,
        message=f"a step takes {ratio_text(time)} times as long: "
        f"{quantity(time.baseline_s, 's')} -> {quantity(time.value_s, 's')}",
        interval=(time.low, time.high),
        evidence=tuple(evidence),
    )


def ratio_text(time: StepTime) -> str:
    """``1.31 [1.24, 1.40]``."""
    return f"{time.ratio:.2f} [{time.low:.2f}, {time.high:.2f}]"


def _finite(mine: Sequence[float], theirs: Sequence[float]) -> Rounds:
    if mine and len(mine) == len(theirs) and min(*mine, *theirs) > 0 and math.isfinite(sum(mine) + sum(theirs)):
        return (*mine, *theirs)
    usable = [(a, b) for a, b in zip(mine, theirs, strict=False) if 0 < a < math.inf and 0 < b < math.inf]
    return (*(a for a, _ in usable), *(b for _, b in usable))
