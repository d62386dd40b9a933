"""Step time: noisy, so a difference must exceed chance and the baseline's difference from itself."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from statistics import median
from typing import NamedTuple

import msgspec

from dsregress.compare.comparison import NotCompared, StepTime
from dsregress.compare.metrics import BY_NAME, PROCESSOR_TIME, STEP_TIME, Metric
from dsregress.compare.result_pairs import Pair, finding
from dsregress.config.thresholds import LOOKS, Thresholds
from dsregress.messages import message
from dsregress.model import Finding
from dsregress.wording.quantities import plural, quantity

#: The clocks by which each step time is estimated; the report corrects for all of them.
CLOCKS = (STEP_TIME, PROCESSOR_TIME)

#: A baseline's own rounds, split in two, must leave this many pairs to say anything about its noise.
CONTROL_PAIRS = 3

Rounds = tuple[float, ...]  #: seconds of the candidate's rounds, then of as many of the baseline's


class _Timed(NamedTuple):
    stack: str
    workload: str
    rounds: Rounds
    session: str  #: its stacks are divided by the same rounds of the baseline; empty for a control


def estimate_step_times(
    pairs: Iterable[Pair], thresholds: Thresholds
) -> tuple[list[StepTime], list[StepTime], list[NotCompared]]:
    """Return, for pairs that passed, every step time by each clock (not judged yet), the controls, and the cells that could
    not be timed."""
    timed: list[_Timed] = []
    by_processor: list[_Timed] = []
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
            timed.append(_Timed(pair.stack, pair.workload, usable, pair.result.session))
            by_processor += _by_processor(pair, len(usable) // 2)
    return [*_estimate(timed), *_estimate(by_processor, metric=PROCESSOR_TIME)], _controls(baselines), untimed


def judge_step_times(
    times: Sequence[StepTime], controls: Sequence[StepTime], thresholds: Thresholds
) -> tuple[list[Finding], list[StepTime], list[NotCompared]]:
    """Return findings, the step time of each pair with its verdict, and the pairs without a verdict for lack of data.
    Processor time decides a pair that wall time does not tell apart.

    ``times`` and ``controls`` are those of all workloads, from `estimate_step_times`.
    """
    if not times:
        return [], [], []
    import numpy as np

    from dsregress.compare import statistics

    own = {control.workload: control for control in controls}
    corrected = statistics.holm(np.array([time.p_value for time in times]))
    verdicts: dict[tuple[str, str, str], _JudgedTime] = {}
    for time, p_value in zip(times, corrected.tolist(), strict=True):
        control = own.get(time.workload) if time.metric == STEP_TIME.name else None
        known = _judge(msgspec.structs.replace(time, p_value=p_value), control, thresholds)
        verdicts[time.stack, time.workload, time.metric] = known
    judged: list[StepTime] = []
    findings: list[Finding] = []
    unknown: list[NotCompared] = []
    for (stack, workload, metric), known in verdicts.items():
        if metric != STEP_TIME.name:
            continue
        by_processor = verdicts.get((stack, workload, PROCESSOR_TIME.name))
        control = own.get(workload)
        beside = f"the baseline against itself: {ratio_text(control)}" if control is not None else ""
        if (
            by_processor is not None
            and by_processor.is_relevant
            and known.time.verdict == "unknown"
            and not known.is_significant
        ):
            beside = f"the wall's clock does not tell them apart: {ratio_text(known.time)}"
            known = by_processor
        time = known.time
        judged.append(time)
        if known.is_significant:
            findings.append(_time_finding(time, beside, relevant=known.is_relevant))
        if time.verdict == "unknown":
            work = ""
            if by_processor is not None and by_processor.time.verdict == "same":
                work = f"; its processor time is the same, {ratio_text(by_processor.time)}"
            differs = f"takes {'longer' if time.ratio > 1 else 'less time'}"
            question = (
                f"its step {differs}, not enough data to say whether by {thresholds.time_share:.0%} or more"
                if known.is_significant
                else "not enough data to say whether its step takes longer"
            )
            reason = f"{question}{work} ({time.pairs} rounds; --budget gives it more time)"
            unknown.append(NotCompared(time.stack, time.workload, STEP_TIME.name, reason))
    return findings, judged, unknown


def undecided_note(times: Sequence[StepTime], thresholds: Thresholds) -> list[str]:
    """Return a note on the number of judged step times without a verdict, and what would decide them; empty if all have
    one."""
    left = [time for time in times if time.verdict == "unknown"]
    if not left:
        return []
    more = median(_times_as_many_rounds(time, thresholds) for time in left)
    if median(time.pairs for time in left) * more > LOOKS[-1]:
        remedy = "on this machine rounds scatter too much for any --budget; use a quieter one"
    else:
        times_as_many = f"about {max(2, math.ceil(more))} times as many rounds"
        remedy = f"{times_as_many} would decide half of them: a larger --budget, or a quieter machine"
    return [f"step time: no verdict for {len(left):,} of {plural(len(times), 'pair')}; {remedy}"]


def _times_as_many_rounds(time: StepTime, thresholds: Thresholds) -> float:
    """Return the factor by which rounds must grow for an interval short enough for a verdict, if ratio and scatter stay the
    same: the interval is inversely proportional to the root of their number. Infinite if no number is enough."""
    reach = math.log(time.high / time.low) / 2
    off = abs(math.log(time.ratio))
    room = off if off >= math.log1p(thresholds.time_share) else math.log1p(thresholds.time_same_share) - off
    return (reach / room) ** 2 if room > 0 else math.inf


def decided(
    rounds: Mapping[str, Sequence[float]], baseline: Sequence[float], step_times: int, thresholds: Thresholds
) -> set[str]:
    """Return the stacks of a session that have a verdict in a report of ``step_times`` step times, by their rounds so far
    and the baseline's (wall time in seconds)."""
    timed = [_Timed(stack, "", _finite(own, baseline), "session") for stack, own in rounds.items()]
    control = next(iter(_estimate(_halves("", "", baseline))), None)
    found = set()
    for time in _estimate([one for one in timed if len(one.rounds) // 2 >= thresholds.rounds]):
        corrected = msgspec.structs.replace(time, p_value=min(1.0, time.p_value * step_times * len(CLOCKS)))
        if _judge(corrected, control, thresholds).time.verdict != "unknown":
            found.add(time.stack)
    return found


class _JudgedTime(NamedTuple):
    time: StepTime
    is_significant: bool
    is_relevant: bool


def _judge(time: StepTime, control: StepTime | None, thresholds: Thresholds) -> _JudgedTime:
    """Return the verdict on a step time whose p-value is corrected."""
    noise = abs(math.log(control.ratio)) if control is not None else 0.0
    is_significant = time.p_value < thresholds.time_false_alarm and abs(math.log(time.ratio)) > noise
    is_relevant = is_significant and STEP_TIME.relevant(time.baseline_s * time.ratio, time.baseline_s, thresholds)
    limit = 1 + thresholds.time_same_share
    verdict = "same" if 1 / limit < time.low and time.high < limit else "unknown"
    if is_relevant:
        verdict = "slower" if time.ratio > 1 else "faster"
    return _JudgedTime(msgspec.structs.replace(time, verdict=verdict), is_significant, is_relevant)


def _usable(pair: Pair, thresholds: Thresholds) -> tuple[Rounds, str]:
    """Return the rounds that can be paired, or the reason why they cannot be."""
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


def _by_processor(pair: Pair, rounds: int) -> list[_Timed]:
    """Return the processor time of ``rounds`` pairs of rounds; empty if it is not the work of a step, as on a GPU, or not
    known for each round."""
    beside = pair.base_beside
    if beside is None or pair.result.cell.device != "cpu":
        return []
    usable = _finite(pair.own.processor_s, beside.processor_s)
    return [_Timed(pair.stack, pair.workload, usable, pair.result.session)] if len(usable) // 2 == rounds else []


def _controls(baselines: Sequence[Pair]) -> list[StepTime]:
    """Return the baseline against itself: a second run if it has one, else its odd rounds against its even ones, neighbours
    in pairs."""
    timed: list[_Timed] = []
    for pair in baselines:
        own = pair.own.round_s
        if pair.base_again:
            rounds = _finite(pair.base_again.round_s, own)
            timed += [_Timed(pair.stack, pair.workload, rounds, "")] if len(rounds) // 2 >= CONTROL_PAIRS else []
        else:
            timed += _halves(pair.stack, pair.workload, own)
    return _estimate(timed, "control")


def _halves(stack: str, workload: str, own: Sequence[float]) -> list[_Timed]:
    """Return odd rounds against even ones; empty if they are too few."""
    rounds = _finite(own[1::2], own[0::2])
    return [_Timed(stack, workload, rounds, "")] if len(rounds) // 2 >= CONTROL_PAIRS else []


def _estimate(timed: Sequence[_Timed], verdict: str = "", metric: Metric = STEP_TIME) -> list[StepTime]:
    """Return all ratios in the order of ``timed``."""
    if not timed:
        return []
    import numpy as np

    from dsregress.compare import statistics

    counts = [len(one.rounds) // 2 for one in timed]
    own = [one.rounds[:count] for one, count in zip(timed, counts, strict=True)]
    baseline = [one.rounds[count:] for one, count in zip(timed, counts, strict=True)]
    all_logs = statistics.log_ratios(np.array([*chain(*own)]), np.array([*chain(*baseline)]))
    logs = np.split(all_logs, np.cumsum(counts)[:-1])
    sessions: dict[tuple[str, str], list[int]] = defaultdict(list)  # a control is one by itself
    for at, one in enumerate(timed):
        sessions[one.workload, one.session].append(at)
    means = statistics.Means(*np.empty((3, len(timed))))
    for which in sessions.values():
        statistics.put(means, which, statistics.means_of_session([logs[at] for at in which]))
    numbers = np.column_stack((statistics.ratio(means), *statistics.interval(means), statistics.p_values(means)))
    return [
        StepTime(
            stack=one.stack,
            workload=one.workload,
            ratio=ratio,
            low=low,
            high=high,
            pairs=len(own_s),
            value_s=median(own_s),
            baseline_s=median(baseline_s),
            p_value=p_value,
            metric=metric.name,
            verdict=verdict,
        )
        for one, own_s, baseline_s, (ratio, low, high, p_value) in zip(
            timed, own, baseline, numbers.tolist(), strict=True
        )
    ]


def _time_finding(time: StepTime, beside: str, *, relevant: bool) -> Finding:
    """Return the finding on a step time. ``beside`` is evidence that a reader has to know in addition."""
    metric = BY_NAME[time.metric]
    slower = time.ratio > 1
    evidence = f"{time.pairs} interleaved rounds, p = {time.p_value:.2g} after correction for all comparisons"
    return finding(
        time.stack,
        time.workload,
        metric=metric.name,
        phase="",
        kind="regression" if slower else "improvement",
        value=time.value_s,
        baseline_value=time.baseline_s,
        ratio=time.ratio,
        unit=metric.unit,
        significant=True,
        relevant=relevant,
        sentence=message(
            "{change}: {before} -> {now}",
            change=metric.phrase.of_subject(message("a step"), ratio_text(time), more=slower),
            before=quantity(time.baseline_s, "s"),
            now=quantity(time.value_s, "s"),
        ),
        interval=(time.low, time.high),
        evidence=(evidence, beside) if beside else (evidence,),
    )


def ratio_text(time: StepTime) -> str:
    """Return ``1.31 [1.24, 1.40]``."""
    return f"{time.ratio:.2f} [{time.low:.2f}, {time.high:.2f}]"


def clocked_ratio_text(time: StepTime) -> str:
    """Return the same as `ratio_text`, with the clock unless it is the wall clock."""
    return ratio_text(time) + (" of processor time" if time.metric == PROCESSOR_TIME.name else "")


def _finite(mine: Sequence[float], theirs: Sequence[float]) -> Rounds:
    if mine and len(mine) == len(theirs):
        both = (*mine, *theirs)
        if min(both) > 0 and math.isfinite(sum(both)):
            return both
    usable = [(a, b) for a, b in zip(mine, theirs, strict=False) if 0 < a < math.inf and 0 < b < math.inf]
    return (*(a for a, _ in usable), *(b for _, b in usable))
