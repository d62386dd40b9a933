"""*Episodes*: one thing that is worse on one workload, and the releases that have it. Pure.

An episode is a level that one metric rises to in one release and leaves in a later one. Where a metric rises twice, the
higher level is an episode of its own, inside the longer one: two changes, two causes. Differences in training are cut in the
same way, by their distance from the baseline's training, but lie side by side. A failure, and a finding of an oracle, has no
levels: its episode is the releases that have it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from dsregress.compare.comparison import StepTime
from dsregress.compare.metrics import (
    BY_NAME,
    COMES_OUT,
    FED_DIFFERENCE,
    OUTCOME,
    PILES_UP,
    RESUMED_DATA,
    SAVED_NUMBERS,
    START_WEIGHTS,
    STEP_TIME,
    TRAINED_WEIGHTS,
    TRAINING_DIFFERENCE,
    WEIGHT_PRECISION,
)
from dsregress.compare.outcomes import fault_of
from dsregress.config.thresholds import Thresholds
from dsregress.model import Finding

_T = TypeVar("_T")

#: Training this many times as far from the baseline is another level.
_FURTHER = 2.0

#: Below this share of a level a release is free of it. Between this and the threshold a release has no verdict, unless it
#: is between releases that have the level: a level that wavers around the threshold is one level.
_FREE_BELOW = 0.5


#: Metrics of a program's distance from its own run with the baseline: of what it trains, what comes out
#: and what stays from step to step.
_OF_THE_JOB = WEIGHT_PRECISION, START_WEIGHTS, RESUMED_DATA, FED_DIFFERENCE, TRAINED_WEIGHTS
_FROM_BASELINE = frozenset(metric.name for metric in (*_OF_THE_JOB, *COMES_OUT, *PILES_UP, SAVED_NUMBERS))


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is worse on one workload, and the releases that have it."""

    workload: str
    cause: tuple[str, ...]  #: what findings of one cause have in common: a family of metrics, how it failed
    having: tuple[str, ...]  #: stack ids in version order
    free: frozenset[str]  #: stacks with a verdict that do not have it
    findings: tuple[tuple[str, ...], ...]  #: keys of the findings that this causes


class MetricIncreases(msgspec.Struct, frozen=True):
    """Increases of one exact metric of one workload over the baseline."""

    metric: str
    baseline: float
    more: dict[str, float]  #: stack id -> how much, where it is more


def of_findings(found: Sequence[Finding], passed: Collection[str], order: Sequence[str]) -> Iterator[Episode]:
    """Yield the episodes of failures and of oracle findings on one workload. ``passed`` are the stacks that ran to the end;
    ``order`` has all stack ids in version order."""
    together: dict[tuple[str, ...], dict[str, list[Finding]]] = defaultdict(lambda: defaultdict(list))
    for one in found:
        if one.kind == "failed" and one.outcome is not None:
            together[OUTCOME.name, one.phase, fault_of(one.outcome)][one.stack].append(one)
        elif one.kind == "wrong" or (one.kind == "regression" and one.metric in _FROM_BASELINE):
            together[(_family(one.metric),)][one.stack].append(one)
    for cause, by_stack in together.items():
        free = frozenset(passed) - by_stack.keys()
        judged = [stack for stack in order if stack in by_stack or stack in free]
        for part in [by_stack] if cause[0] == OUTCOME.name else _faults(by_stack, judged):
            if {one.metric for found_there in part.values() for one in found_there} == {TRAINING_DIFFERENCE.name}:
                yield from _of_distances(part, found[0].workload, cause, judged)
                continue
            yield Episode(
                workload=found[0].workload,
                cause=cause,
                having=tuple(stack for stack in order if stack in part),
                free=frozenset(judged).difference(part),
                findings=tuple(one.key for stack in order for one in part.get(stack, ())),
            )


def _of_distances(
    by_stack: Mapping[str, Sequence[Finding]], workload: str, cause: tuple[str, ...], judged: Sequence[str]
) -> Iterator[Episode]:
    """Yield the episodes of training that differs from the baseline's, one for each level of the distance. What is further
    away than others trains otherwise than they do, so that it is in no episode of theirs."""
    sizes = [max((float(one.value) for one in by_stack.get(stack, ())), default=0.0) for stack in judged]

    def is_further(size: float, floor: float) -> bool:
        return size > max(1.0, _FURTHER * floor)

    keys = {stack: [one.key for one in found] for stack, found in by_stack.items()}
    for episode in _of_levels(sizes, is_further, keys, workload, cause, judged):
        own = tuple(stack for stack in episode.having if set(keys.get(stack, ())) <= set(episode.findings))
        yield msgspec.structs.replace(episode, having=own)


def _faults(by_stack: Mapping[str, Sequence[Finding]], judged: Sequence[str]) -> Iterator[dict[str, list[Finding]]]:
    """Yield the oracle findings on one workload, fault by fault: metrics that are wrong in the same release share a fault,
    metrics that are never wrong together do not. A release without findings ends all faults."""
    for run in _runs(judged, by_stack.__contains__):
        kinds: list[set[str]] = []
        for stack in run:
            own = {one.metric for one in by_stack[stack]}
            kinds = [*(kind for kind in kinds if kind.isdisjoint(own)), own.union(*(k for k in kinds if k & own))]
        for kind in kinds:
            members = {stack: [one for one in by_stack[stack] if one.metric in kind] for stack in run}
            yield {stack: found for stack, found in members.items() if found}


def of_increases(
    increases: MetricIncreases,
    keys: Mapping[str, tuple[str, ...]],
    workload: str,
    judged: Sequence[str],
    thresholds: Thresholds,
) -> list[Episode]:
    """Return the episodes of one exact metric. ``keys`` are those of its findings, by stack; ``judged`` are the stacks with
    a verdict, in version order."""
    sizes = [increases.more.get(stack, 0.0) for stack in judged]

    def matters(size: float, floor: float) -> bool:
        return size > floor and BY_NAME[increases.metric].relevant(
            increases.baseline + size, increases.baseline + floor, thresholds
        )

    own = {stack: [key] for stack, key in keys.items()}
    return list(_of_levels(sizes, matters, own, workload, (_family(increases.metric),), judged))


def _of_levels(
    sizes: Sequence[float],
    matters: Callable[[float, float], bool],
    keys: Mapping[str, Sequence[tuple[str, ...]]],
    workload: str,
    cause: tuple[str, ...],
    judged: Sequence[str],
) -> Iterator[Episode]:
    """Yield an episode for each level of ``sizes``, which belong to the ``judged`` stacks. It has the findings (by their
    ``keys``) of the stacks that have no higher level."""
    for level in _levels(sizes, 0.0, range(len(sizes)), matters):
        higher = {at for inner in level.higher for at in inner}
        own = [judged[at] for at in level.having if at not in higher]
        yield Episode(
            workload=workload,
            cause=cause,
            having=tuple(judged[at] for at in level.having),
            free=frozenset(judged[at] for at in range(len(judged)) if at not in level.partly),
            findings=tuple(key for stack in own for key in keys.get(stack, ())),
        )


def of_step_times(
    times: Sequence[StepTime], keys: Mapping[tuple[str, str], tuple[str, ...]], baseline: str
) -> list[Episode]:
    """Return the episodes of step time. ``keys`` are those of its findings, by stack and workload."""
    verdicts: dict[str, dict[str, str]] = defaultdict(dict)
    for time in times:
        verdicts[time.workload][time.stack] = time.verdict
    return [
        Episode(
            workload=workload,
            cause=(STEP_TIME.family,),
            having=slower,
            free=frozenset({baseline, *(stack for stack, word in words.items() if word in ("same", "faster"))}),
            findings=tuple(keys[stack, workload] for stack in slower),
        )
        for workload, words in verdicts.items()
        if (slower := tuple(stack for stack, word in words.items() if word == "slower"))
    ]


def _family(metric: str) -> str:
    """Return the family of a metric; for an oracle's metric on memory, that of the memory which it judges."""
    known = BY_NAME[metric]
    return BY_NAME[known.explained_by].family if known.explained_by else known.family


class _Level(msgspec.Struct, frozen=True):
    """A level and the higher ones inside it. Releases are given by their positions."""

    having: range
    partly: Collection[int]  #: these, and their neighbours that have a good part of it
    higher: list[range]


def _levels(
    sizes: Sequence[float], floor: float, within: Sequence[int], matters: Callable[[float, float], bool]
) -> Iterator[_Level]:
    """Yield every level above ``floor``, each before those inside it."""
    for run in _runs(within, lambda at: sizes[at] > floor):
        if not (high := [sizes[at] for at in run if matters(sizes[at], floor)]):
            continue
        level = min(high)
        partly = {at for at in run if sizes[at] - floor >= _FREE_BELOW * (level - floor)}
        for part in _runs(run, partly.__contains__):
            if core := [at for at in part if matters(sizes[at], floor)]:
                having = range(core[0], core[-1] + 1)
                inside = list(_levels(sizes, level, having, matters))
                yield _Level(having, part, [inner.having for inner in inside])
                yield from inside


def _runs(within: Iterable[_T], has: Callable[[_T], bool]) -> Iterator[list[_T]]:
    """Yield each run of neighbours for which ``has`` is true."""
    return (list(run) for having, run in itertools.groupby(within, has) if having)
