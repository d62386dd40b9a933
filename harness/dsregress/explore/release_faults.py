"""Failures of two releases in a configuration, and the faults behind them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from dsregress import compare
from dsregress.bisect.questions import Question
from dsregress.compare.comparison import Comparison, DetailOf
from dsregress.compare.finding_groups import severity
from dsregress.compare.metrics import BY_NAME, COLLECTIVE_COUNT, CONFIGURATION, FLOPS, OUTCOME, Direction
from dsregress.compare.outcomes import signature_text
from dsregress.config.thresholds import Thresholds
from dsregress.explore import space
from dsregress.explore.follow_up import Followed
from dsregress.explore.space import Row
from dsregress.model import Finding, Result, Stack, is_measurement
from dsregress.probe.factors import BY_NAME as FACTOR_OF
from dsregress.reproduce import cells

#: Findings that count as faults: those that fail a run, and counted work that the training itself determines. Python calls
#: and time are costs of every change.
_FAULTS = ("numerics", "crash", "memory")
_WORK = (COLLECTIVE_COUNT.family, FLOPS.family)


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of one release, or of both."""

    stack: Stack  #: the release that has it
    other: Stack | None  #: one that does not; None where both have it
    question: Question

    @property
    def family(self) -> tuple[str, ...]:
        """The part that failures of one cause share, besides their conditions."""
        return (self.stack.id, BY_NAME[self.question.metric].family, self.question.key)

    @property
    def is_crash(self) -> bool:
        """True if the release fails."""
        return self.question.metric == OUTCOME.name

    @property
    def is_cost(self) -> bool:
        """True if training is right but takes more work."""
        return BY_NAME[self.question.metric].family in _WORK

    @property
    def hides_others(self) -> bool:
        """True if a configuration with it shows nothing else about training."""
        return self.is_crash or BY_NAME[self.question.metric].fails == "numerics"


class FailedTry(_Failure, frozen=True, kw_only=True):
    """A failure that one try shows."""

    row: Row
    finding: Finding

    @property
    def order(self) -> tuple[Any, ...]:
        """Sort key: failures that tell the releases apart first; the gravest, and of those the simplest, first."""
        return (self.other is None, severity(self.finding), len(space.varied_values(self.row)))

    @property
    def alternatives(self) -> list[FailedTry]:
        """The failure as it is, and as one of its release alone, because the other release may fail differently in this
        configuration."""
        metric = BY_NAME[self.question.metric]
        has_truth = metric is OUTCOME or metric.direction is Direction.AT_MOST_ONE
        alone = [msgspec.structs.replace(self, other=None)] if self.other is not None and has_truth else []
        return [self, *alone]


class Fault(_Failure, frozen=True, kw_only=True):
    """One cause, as far as it is known: failures of one kind with the same conditions."""

    finding: Finding  #: in the first try that showed it
    parameters: dict[str, Any]  #: of the smallest cell that was found
    variant: str  #: that cell's
    is_reduced: bool  #: False where the budget ended first
    found_s: float = 0.0  #: after the exploration began
    found_processor_s: float = 0.0  #: that all its processes had used by then
    also: tuple[Row, ...] = ()  #: other values of its factors that show it as well
    tries: int = 1  #: that it explains
    followed: Followed = Followed()

    @property
    def tells_apart(self) -> bool:
        """True if one release has it and the other does not, and its conditions are known."""
        return self.other is not None and self.is_reduced

    @property
    def needs(self) -> Row:
        """The values of the smallest cell that are not the simplest."""
        return space.varied_values(self.parameters)

    @property
    def all_needs(self) -> tuple[Row, ...]:
        """Sets of values, each of which shows it. Each ZeRO stage runs other code, so the stage is one of the values even if
        it is the simplest: a fault without ZeRO says nothing about ZeRO-1."""
        return ({**self.needs, "zero_stage": self.parameters["zero_stage"]}, *self.also)

    def may_explain(self, failure: FailedTry) -> bool:
        """Return True if the failure is of its kind. Findings of the memory oracle and of a comparison are of one kind."""
        if not self.is_reduced or self.stack != failure.stack:
            return False
        both = {BY_NAME[self.question.metric].fails, BY_NAME[failure.question.metric].fails}
        return self.family == failure.family or (both == {"memory"} and self.other == failure.other)

    def is_in(self, row: Mapping[str, object]) -> bool:
        """Return True if a row meets all its conditions."""
        return self.is_reduced and any(space.has_values(row, needs) for needs in self.all_needs)


class ChangedDefault(msgspec.Struct, frozen=True, kw_only=True):
    """A setting in force that differs although the same is configured."""

    key: str
    older: str  #: as JSON
    newer: str
    row: Row  #: in which that was seen


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The failures and changed defaults that the tries of some rows show."""

    failures: list[FailedTry]  #: of both releases; one that both show alike is listed once
    families: dict[str, set[tuple[str, ...]]]  #: by workload
    absent: list[Row]  #: values that call an attribute which one of the releases lacks
    defaults: list[ChangedDefault]


def judge_rows(
    results: Mapping[str, Result],
    row_of: Mapping[str, Row],
    releases: Sequence[Stack],
    thresholds: Thresholds,
    detail_of: DetailOf,
) -> Shown:
    """Judge the results of each row by the oracles, and by a comparison with the other release. ``row_of`` is by
    workload."""
    older, newer = releases
    absent: list[Row] = []
    found: dict[str, dict[tuple[str, ...], FailedTry]] = {}
    defaults: list[ChangedDefault] = []
    for stack, other in ((newer, older), (older, newer)):
        comparison = compare.compare(results.values(), other.id, thresholds, detail_of)
        found[stack.id] = _of_release(comparison, stack, other, results, row_of, absent)
        if stack is newer:
            defaults = _defaults(comparison, stack, row_of)
    newers, olders = found[newer.id], found[older.id]
    families: dict[str, set[tuple[str, ...]]] = {}
    for (workload, *_), failure in (*newers.items(), *olders.items()):
        families.setdefault(workload, set()).add(failure.family)
    failures = [
        *(msgspec.structs.replace(one, other=None) if key in olders else one for key, one in newers.items()),
        *(one for key, one in olders.items() if key not in newers),
    ]
    return Shown(failures=failures, families=families, absent=absent, defaults=defaults)


def _of_release(
    comparison: Comparison,
    stack: Stack,
    other: Stack,
    results: Mapping[str, Result],
    row_of: Mapping[str, Row],
    absent: list[Row],
) -> dict[tuple[str, ...], FailedTry]:
    """Return the failures of one release by workload and family. Add the values that it lacks to ``absent``."""
    found: dict[tuple[str, ...], FailedTry] = {}
    for group in comparison.groups:
        one = group.headline
        if lacking := _absent(results[one.cell], row_of[one.workload]):
            absent += [values for values in lacking if values not in absent]
            continue
        question = _question_of_finding(one, results)
        if one.stack == stack.id and question is not None:
            failure = FailedTry(stack=stack, other=other, row=row_of[one.workload], finding=one, question=question)
            found[(one.workload, *failure.family[1:])] = failure
    return found


def _question_of_finding(found: Finding, results: Mapping[str, Result]) -> Question | None:
    """Return the finding as a question about other cells; None if it is no fault of a release."""
    metric = BY_NAME[found.metric]
    counts = metric.fails in _FAULTS or metric.family in _WORK
    if not counts or found.kind not in ("wrong", "regression", "failed"):
        return None
    if metric is not OUTCOME:
        return Question(metric.name, found.phase if metric.per_phase else "") if found.relevant else None
    result = results[found.cell]
    return cells.with_error(Question(metric.name), result) if is_measurement(result.outcome) else None


def _absent(result: Result, row: Row) -> list[Row]:
    """Return the values of a row that call the attribute whose absence ended it."""
    found = re.search(r"has no attribute '(\w+)'", signature_text(result.outcome))
    changed = space.varied_values(row)
    return [{name: changed[name]} for name in changed if found and FACTOR_OF[name].api == found[1]]


def _defaults(comparison: Comparison, newer: Stack, row_of: Mapping[str, Row]) -> list[ChangedDefault]:
    found = []
    for group in comparison.groups:
        one = group.headline
        if one.metric == CONFIGURATION.name and one.stack == newer.id and one.relevant and isinstance(one.value, dict):
            for key, value in one.value.items():
                before = one.baseline_value[key]
                row = row_of[one.workload]
                found.append(
                    ChangedDefault(key=key, older=_spelled_value(before), newer=_spelled_value(value), row=row)
                )
    return found


def _spelled_value(value: object) -> str:
    return msgspec.json.encode(value).decode()


def forbidden(faults: Collection[Fault], absent: Sequence[Row]) -> list[Row]:
    """Return sets of values that no further row may have: those known to crash, and those that one of the releases lacks."""
    crashes = [needs for fault in faults if fault.is_crash and fault.is_reduced for needs in fault.all_needs]
    return [*filter(None, crashes), *absent]
