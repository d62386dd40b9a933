"""Judgements of whole workloads: all steps of a comparison that need no other workload.

Workloads can be judged apart, by several processes. The steps that need all of them (Holm's correction, the limits, the
order) are in `dsregress.compare.verdicts`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dsregress.compare import (
    changed_settings,
    episodes,
    exact_differences,
    fed_differences,
    finding_groups,
    logged_differences,
    model_differences,
    oracles,
    outcomes,
    saved_differences,
    step_growth,
    steps_taken,
    training_differences,
)
from dsregress.compare.changed_settings import ConfigurationChange
from dsregress.compare.comparison import EVERYTHING, Group, NotCompared, StepTime
from dsregress.compare.episodes import Episode, MetricIncreases
from dsregress.compare.metrics import BY_NAME
from dsregress.compare.notes import Remarks, remarks_on
from dsregress.compare.release_ranges import in_version_order
from dsregress.compare.result_pairs import Pair, ResultIndex, left_out, why_not
from dsregress.compare.result_summary import ResultSummary
from dsregress.compare.resumed_data import judge_resumed_data, resume_apart
from dsregress.compare.step_times import estimate_step_times
from dsregress.compare.unused_releases import why_begins_anew, why_says_nothing
from dsregress.compare.worst_readings import Exact
from dsregress.config.thresholds import Thresholds
from dsregress.model import Finding, MachineFault, Outcome, OutOfMemory, Passed, Result, Stack, TimedOut
from dsregress.wording.names import outcome_text
from dsregress.wording.workload_words import is_given_program

#: Differences below the thresholds are listed up to this many, and counted beyond.
MOST_SMALL = 5_000


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of some whole workloads, without their cells. Everything is in the order of the results."""

    stacks_by_workload: dict[str, tuple[str, ...]]  #: the cells
    parameters: dict[str, dict[str, Any]]  #: workload -> what its scenario and variant resolve to
    without_verdict: dict[str, list[str]]  #: workload -> the stacks of the cells without a verdict
    longest_s: dict[str, float]  #: workload -> seconds that the longest run of its cells took
    days: dict[
        str, tuple[str, str]
    ]  #: workload -> the first and the last day on which a cell of it was measured, in UTC
    stacks: dict[str, Stack]
    installed: dict[str, dict[str, str]]  #: stack -> the packages installed for its first result
    demands: dict[str, list[str]]  #: a distribution with its version -> its requirements on the stacks' packages
    superseded: int
    groups: list[Group]
    episodes: list[Episode]  #: without those of step time, which is judged later
    small: list[Finding]  #: below the thresholds; the first of them
    small_differences: int
    not_compared: list[NotCompared]
    untimed: list[NotCompared]
    step_times: list[StepTime]  #: not judged yet: that needs the step times of all workloads
    control: list[StepTime]
    changes: list[ConfigurationChange]
    remarks: Remarks
    passed: int
    ended: dict[str, dict[str, Outcome]]  #: workload -> stack -> the outcome of its cell, unless it passed


def judge_workloads(index: ResultIndex, thresholds: Thresholds) -> Judged:
    """Judge the results of whole workloads."""
    pairs = index.pairs()
    judgement = _Judgement(thresholds)
    for pair in pairs:
        judgement.add(pair)
    times, control, untimed = estimate_step_times(judgement.comparable, thresholds)
    return Judged(
        stacks_by_workload={workload: tuple(by_stack) for workload, by_stack in index.newest.items()},
        parameters={
            workload: next(iter(by_stack.values())).result.cell.parameters
            for workload, by_stack in index.newest.items()
        },
        without_verdict=judgement.without_verdict,
        longest_s={
            workload: max(cell.result.duration_s for cell in by_stack.values())
            for workload, by_stack in index.newest.items()
        },
        days={workload: _days(by_stack.values()) for workload, by_stack in index.newest.items()},
        stacks=index.stacks,
        installed=index.installed,
        demands=index.demands,
        superseded=index.superseded,
        groups=finding_groups.group_findings(judgement.findings),
        episodes=_episodes(index, pairs, judgement, thresholds),
        small=judgement.small,
        small_differences=judgement.small_differences,
        not_compared=judgement.not_compared,
        untimed=untimed,
        step_times=times,
        control=control,
        changes=changed_settings.detail_changes(judgement.comparable),
        remarks=remarks_on(pairs, judgement.comparable),
        passed=len(pairs) - sum(map(len, judgement.ended.values())),
        ended=judgement.ended,
    )


def _days(cells: Iterable[ResultSummary]) -> tuple[str, str]:
    days = sorted(cell.result.started_at[:10] for cell in cells)
    return days[0], days[-1]


class _Judgement:
    """The judgement of each cell by itself and against the baseline's, collected pair by pair."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.findings: list[Finding] = []
        self.small: list[Finding] = []
        self.small_differences = 0
        self.not_compared: list[NotCompared] = []
        self.comparable: list[Pair] = []
        self.without_verdict: dict[str, list[str]] = defaultdict(list)
        self.ended: dict[str, dict[str, Outcome]] = defaultdict(dict)
        self.increases: dict[tuple[str, str, str], MetricIncreases] = {}  #: by workload, metric and phase
        self._thresholds = thresholds
        self._differences = _KnownDifferences(thresholds)

    def add(self, pair: Pair) -> None:
        """Judge a pair."""
        if not isinstance(pair.result.outcome, Passed):
            self.ended[pair.workload][pair.stack] = pair.result.outcome
        if (alone := left_out(pair)) is not None:
            self.not_compared.append(alone)
            self.without_verdict[pair.workload].append(pair.stack)
            return
        if (outcome := outcomes.judge_outcome(pair)) is not None:
            self.findings.append(outcome)
        reason = _cannot(pair)
        self.findings += oracles.judge_numerics(pair)
        self.findings += oracles.judge_memory(pair, self._thresholds)
        self.findings += saved_differences.judge_saved_files(pair)
        self.findings += judge_resumed_data(pair)
        if not reason:
            self._compare(pair)
            return
        if outcome is None or outcome.kind != "failed":
            self._leave_out(pair, reason)
        else:  # the finding on the failure says why
            self.without_verdict[pair.workload].append(pair.stack)

    def _leave_out(self, pair: Pair, reason: str) -> None:
        self.without_verdict[pair.workload].append(pair.stack)
        self.not_compared.append(NotCompared(pair.stack, pair.workload, EVERYTHING, reason))

    def _compare(self, pair: Pair) -> None:
        findings = model_differences.judge_model(pair)
        findings += (trained := _judge_training(pair))
        findings += steps_taken.judge_steps_taken(pair)
        is_other = bool(trained) or resume_apart(pair) or model_differences.is_drawn_otherwise(pair)
        findings += [] if is_other else logged_differences.judge_logged(pair)
        findings += step_growth.judge_step_growth(pair)
        findings += saved_differences.judge_saved_tensors(pair, trains_otherwise=is_other)
        findings += saved_differences.judge_saved_size(pair)
        differences = [] if pair.is_baseline else self._differences.of(pair)
        is_different = bool(findings) or any(one.relevant for one in differences)
        if not is_different and not pair.is_baseline and (reason := why_says_nothing(pair)):
            self._leave_out(pair, reason)
            return
        self.comparable.append(pair)
        self.findings += findings
        for difference in differences:
            if difference.value > difference.baseline:
                key = (pair.workload, *_metric_and_phase(difference))
                known = self.increases.setdefault(key, MetricIncreases(difference.metric, difference.baseline, {}))
                known.more[pair.stack] = difference.value - difference.baseline
            if difference.relevant:
                self.findings.append(exact_differences.finding(pair, difference))
                continue
            self.small_differences += 1
            if self.small_differences <= MOST_SMALL:
                self.small.append(exact_differences.finding(pair, difference))


def _judge_training(pair: Pair) -> list[Finding]:
    """Return the findings on what a program is fed and what comes out. Where the data differ, the losses of these steps
    differ since the data do, and are no finding of their own; those of the steps before come first."""
    if resume_apart(pair):
        return []
    fed = fed_differences.judge_feed(pair)
    if not fed.sentence:
        return training_differences.judge_training(pair)
    before = training_differences.judge_training(pair, before_step=fed.since_step)
    if before and fed.since_step > 1:
        return before
    is_worse = fed.is_worse or (fed.only_ids and bool(training_differences.judge_training(pair)))
    return [*before, fed.finding(pair, is_worse=is_worse)]


def _episodes(
    index: ResultIndex, pairs: Sequence[Pair], judgement: _Judgement, thresholds: Thresholds
) -> list[Episode]:
    """Return the episodes of every workload."""
    found: dict[str, list[Finding]] = defaultdict(list)
    for one in judgement.findings:
        found[one.workload].append(one)
    passed: dict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        if isinstance(pair.result.outcome, Passed) and pair.own.recorded:
            passed[pair.workload].add(pair.stack)
    judged: dict[str, set[str]] = defaultdict(set)
    for pair in judgement.comparable:
        judged[pair.workload].add(pair.stack)
    order = [stack.id for stack in in_version_order(list(index.stacks.values()))]
    keys = {
        (one.workload, *_metric_and_phase(one), one.stack): one.key
        for one in judgement.findings
        if one.kind == "regression"
    }
    made = [
        one for workload, members in found.items() for one in episodes.of_findings(members, passed[workload], order)
    ]
    for (workload, metric, phase), values in judgement.increases.items():
        own = {stack: key for stack in values.more if (key := keys.get((workload, metric, phase, stack)))}
        if own:
            in_order = [stack for stack in order if stack in judged[workload]]
            made += episodes.of_increases(values, own, workload, in_order, thresholds)
    return made


def _metric_and_phase(one: exact_differences.Difference | Finding) -> tuple[str, str]:
    """Return the metric and phase under which increases are kept; a metric for all phases has no phase."""
    return one.metric, "" if BY_NAME[one.metric].is_for_all_phases else one.phase


class _KnownDifferences:
    """The exact comparison, made once for all cells of a workload that measured the same."""

    def __init__(self, thresholds: Thresholds) -> None:
        self._thresholds = thresholds
        self._known: dict[
            tuple[str, Exact], list[exact_differences.Difference]
        ] = {}  #: by workload, which has one baseline

    def of(self, pair: Pair) -> list[exact_differences.Difference]:
        """Return the exact values in which a cell differs from the baseline's."""
        if pair.base is None or pair.own.exact == pair.base.exact:
            return []
        key = (pair.workload, pair.own.exact)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = exact_differences.differences(
                pair.own.exact,
                pair.base.exact,
                self._thresholds,
                is_program=is_given_program(pair.result.cell.scenario),
            )
        return known


def _cannot(pair: Pair) -> str:
    """Return the reason why a cell has no comparison with the baseline; empty if it has one."""
    base = pair.baseline
    if outcomes.fails_once_measured(pair):
        return why_not(pair)
    if base is not None and not pair.is_baseline and not isinstance(base.outcome, Passed):
        return why_not(pair) or f"the baseline {_ended(base)}"
    if not isinstance(pair.result.outcome, Passed):
        return f"it {_ended(pair.result)}"
    if pair.base is not None and not pair.base.recorded:
        return "the baseline's measurements are missing"
    return "" if pair.is_baseline else why_not(pair) or why_begins_anew(pair)


def _ended(result: Result) -> str:
    """Return how a result that did not pass ended, as the end of a sentence."""
    text = outcome_text(result.outcome)
    match result.outcome:
        case MachineFault():
            return f"was {text}"
        case OutOfMemory():
            return f"ran {text}"
        case TimedOut(working=False):
            return f"gave {text}"
    return text
