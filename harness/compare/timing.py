"""Step time: noisy, so a difference must exceed chance, and what the baseline differs from itself."""

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
from harness.config.thresholds import Thresholds
from harness.model import Finding
from harness.wording.quantities import quantity

#: A baseline's own rounds, split in two, must leave this many pairs to say anything about its noise.
CONTROL_PAIRS = 3

Rounds = tuple[float, ...]  #: seconds of the candidate's rounds, then of as many of the baseline's


def estimate(pairs: Iterable[Pair], thresholds: Thresholds) -> tuple[list[StepTime], list[StepTime], list[NotCompared]]:
    """Of pairs that passed: every step time before it is judged, the controls, and what could not be timed."""
    timed: list[tuple[Pair, Rounds]] = []
    baselines: list[Pair] = []
    untimed: list[NotCompared] = []
    for pair in pairs:
        if pair.is_baseline:
            baselines.append(pair)
            continue
        usable, reason = _usable(pair, thresholds)
        if reason:
            untimed.append(NotCompared(pair.stack, pair.workload, STEP_TIME.name, reason))
        elif usable:
            timed.append((pair, usable))
    return _estimate(timed), _controls(baselines), untimed


def judge_step_times(
    times: Sequence[StepTime], controls: Sequence[StepTime], thresholds: Thresholds
) -> tuple[list[Finding], list[StepTime], list[NotCompared]]:
    """Findings, every step time with its verdict, and what has no verdict for want of data.

    ``times`` and ``controls`` are those of all workloads, as `estimate` gives them.
    """
    own = {control.workload: control for control in controls}
    ratio, low, high, p_values = (
        np.array([getattr(time, name) for time in times]) for name in ("ratio", "low", "high", "p_value")
    )
    corrected = statistics.holm(p_values)
    noise = {control.workload: abs(math.log(control.ratio)) for control in controls}
    beyond_noise = np.abs(np.log(ratio)) > np.array([noise.get(time.workload, 0.0) for time in times])
    significant = (corrected < thresholds.time_false_alarm) & ((low > 1) | (high < 1)) & beyond_noise
    limit = 1 + thresholds.time_share
    same = (low > 1 / limit) & (high < limit)
    judged: list[StepTime] = []
    findings: list[Finding] = []
    unknown: list[NotCompared] = []
    rows = zip(times, corrected.tolist(), significant.tolist(), same.tolist(), strict=True)
    for time, p_value, is_significant, is_same in rows:
        verdict = "same" if is_same else "unknown"
        is_relevant = is_significant and STEP_TIME.relevant(time.baseline_s * time.ratio, time.baseline_s, thresholds)
        if is_relevant:
            verdict = "slower" if time.ratio > 1 else "faster"
        judged.append(msgspec.structs.replace(time, p_value=p_value, verdict=verdict))
        if is_significant:
            findings.append(_finding(judged[-1], own.get(time.workload), relevant=is_relevant))
        if verdict == "unknown":
            reason = (
                "not enough data to say whether its step takes longer "
                f"({time.pairs} rounds; ask for more with --rounds)"
            )
            unknown.append(NotCompared(time.stack, time.workload, STEP_TIME.name, reason))
    return findings, judged, unknown


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
    if here != there:
        return (), "timed on other hardware than the baseline"
    usable = _finite(mine, theirs)
    if len(usable) // 2 < thresholds.rounds:
        return (), f"{len(usable) // 2} rounds are too few to say anything about time (at least {thresholds.rounds})"
    return usable, ""


def _controls(baselines: Sequence[Pair]) -> list[StepTime]:
    """The baseline against itself: a second run where there is one, else its odd rounds against its even
    ones, neighbours in pairs."""
    timed = []
    for pair in baselines:
        own = pair.own.round_s
        again = pair.base_again.round_s if pair.base_again else ()
        usable = _finite(again, own) if again else _finite(own[1::2], own[0::2])
        if len(usable) // 2 >= CONTROL_PAIRS:
            timed.append((pair, usable))
    return _estimate(timed, "control")


def _estimate(timed: Sequence[tuple[Pair, Rounds]], verdict: str = "") -> list[StepTime]:
    """All ratios in the order given. Those of as many rounds are computed together."""
    by_count: dict[int, list[int]] = defaultdict(list)
    for at, (_, rounds) in enumerate(timed):
        by_count[len(rounds) // 2].append(at)
    numbers = np.empty((len(timed), 6))
    for count, which in by_count.items():
        seconds = np.array([timed[at][1] for at in which]).reshape(len(which), 2, count)
        logs = statistics.log_ratios(seconds[:, 0], seconds[:, 1])
        estimates = statistics.median_ratio(logs), *statistics.interval(logs), statistics.p_values(logs)
        numbers[which] = np.column_stack((*estimates, *np.median(seconds, axis=2).T))
    return [
        StepTime(
            stack=pair.stack,
            workload=pair.workload,
            ratio=ratio,
            low=low,
            high=high,
            pairs=len(rounds) // 2,
            value_s=value_s,
            baseline_s=baseline_s,
            p_value=p_value,
            verdict=verdict,
        )
        for (pair, rounds), (ratio, low, high, p_value, value_s, baseline_s) in zip(
            timed, numbers.tolist(), strict=True
        )
    ]


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
