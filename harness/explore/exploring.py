"""Two releases, tried in configurations that no scenario lists: what the one gets wrong and the other does not, and what
each fault needs.

Every try is a cell of the scenario ``minimal_training``, measured in the ordinary way in both releases and judged by all
oracles and against the other one. A failure that no known fault explains is reduced to the smallest cell that shows it
(`harness.reproduce.reduction`). A fault explains a failure of its kind where the configuration has all that the fault needs,
or where the failure goes once one of these values is set back.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from harness import compare
from harness.bisect.questions import DetailOf, Question
from harness.compare.groups import severity
from harness.compare.metrics import BY_NAME, OUTCOME, Direction
from harness.compare.outcomes import signature
from harness.explore import space
from harness.explore.following import Followed, follow
from harness.explore.space import Row
from harness.explore.suspects import suspects
from harness.model import Finding, Result, Stack, Verdict, is_measurement
from harness.probe.scenario import Scenario
from harness.reproduce import cells, reduction, requirements
from harness.reproduce.cells import ReleasePair
from harness.reproduce.factors import BY_NAME as FACTOR_OF
from harness.reproduce.factors import FACTORS
from harness.run.session import Session
from harness.store import newest
from harness.wording.quantities import plural

_T = TypeVar("_T")

#: The shares of the budget after which nothing new is tried, and nothing more is reduced, where something was found.
_TRIED, _REDUCED = 0.6, 0.8

#: Tries that are measured before the clock is looked at.
AT_ONCE = 6

#: Guesses of what a failure needs that are tried before its values are set back one by one.
_GUESSES = 2 * AT_ONCE

#: Factors with which a try takes many times as long, and the share of a covering array's rows that has them.
_SLOW = ("compile_backend",)
_SHARE_OF_SLOW = 0.25

#: What counts as a fault: more work and time are costs.
_FAULTS = ("numerics", "crash", "memory")


class ExploreQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to explore."""

    releases: tuple[Stack, Stack]  #: in version order
    published: tuple[Stack, ...]  #: these, and all releases between them, in version order
    package: str  #: in which they differ
    budget_s: float
    seed: int
    detail_of: DetailOf  #: of what the session measures


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One cause, as far as it is known: failures of one kind that need the same."""

    stack: Stack  #: the release that has it
    other: Stack | None  #: one that does not; None where both have it
    question: Question
    finding: Finding  #: in the first try that showed it
    parameters: dict[str, Any]  #: of the smallest cell that was found
    variant: str  #: that cell's
    is_reduced: bool  #: False where the budget ended first
    tries: int = 1  #: that it explains
    followed: Followed = Followed()

    @property
    def tells_apart(self) -> bool:
        """Whether one release has it and the other does not, and what it needs is known."""
        return self.other is not None and self.is_reduced

    @property
    def needs(self) -> Row:
        """The values of the smallest cell that are not the simplest."""
        return space.changed(self.parameters)

    @property
    def family(self) -> tuple[str, ...]:
        return _family(self.stack, self.question)


class Explored(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``explore``."""

    request: ExploreQuery
    faults: tuple[Fault, ...]  #: the gravest first; those of one release alone before those of both
    tries: int  #: configurations that were measured in both releases
    passed: int  #: that passed in both, and are alike
    left: int  #: failures that were not reduced when the budget ended, of kinds that faults have: they may be the same
    pairs_covered: bool  #: whether every pair of values was tried at least once
    cells: int  #: results that were looked at, those of reductions included
    seconds: float


class _BudgetSpent(Exception):
    """The time for an exploration is over."""


class _FailedTry(msgspec.Struct, frozen=True, kw_only=True):
    """What one try shows."""

    stack: Stack
    other: Stack | None  #: None where both releases show it
    row: Row
    finding: Finding
    question: Question

    @property
    def family(self) -> tuple[str, ...]:
        return _family(self.stack, self.question)

    @property
    def order(self) -> tuple[Any, ...]:
        """The gravest, and of those the simplest, first."""
        return (severity(self.finding), len(space.changed(self.row)))


def _family(stack: Stack, question: Question) -> tuple[str, ...]:
    """What failures of one cause share, besides what they need."""
    return (stack.id, BY_NAME[question.metric].family, question.key)


def explore(request: ExploreQuery, simplest: Scenario, session: Session, note: Callable[[str], None]) -> Explored:
    """Tries configurations until the budget is spent. ``note`` gets a line of progress after each few. Raises as a session
    does; what was measured until then is stored, and a later exploration with the same seed uses it."""
    session.build(request.releases)
    session.keep_open()
    exploration = _Exploration(request, simplest, session, note)
    with contextlib.suppress(_BudgetSpent):
        exploration.run()
    exploration.follow_up()
    return exploration.answer()


class _Exploration:
    def __init__(
        self, request: ExploreQuery, simplest: Scenario, session: Session, note: Callable[[str], None]
    ) -> None:
        self._request, self._simplest, self._session, self._note = request, simplest, session, note
        self._base = cells.base_parameters(simplest)
        self._began = time.monotonic()
        self._share = _TRIED  #: of the budget, for what is done now
        self._faults: list[Fault] = []
        self._tried: dict[str, Row] = {}  #: by workload
        self._shown: dict[str, set[tuple[str, ...]]] = {}  #: workload -> the families of what it showed
        self._waiting: list[_FailedTry] = []  #: until every pair of values was tried: then it is known what is sound
        self._passed = 0
        self._absent: list[Row] = []  #: values that call what one of the releases does not have
        self._covered = False
        self._left = 0
        self._seen: set[str] = set()  #: cells
        self._pairs: dict[tuple[str, ...], ReleasePair] = {}

    def run(self) -> None:
        for rows in self._batches():
            failures = self._failures(rows)
            # What crashes hides all else: it is known before the next rows, which then do without.
            self._attribute_all(one for one in failures if one.question.metric == OUTCOME.name)
            self._waiting += [one for one in failures if one.question.metric != OUTCOME.name]
            self._note(
                f"{plural(len(self._tried), 'configuration')} tried, {plural(len(self._faults), 'fault')}; "
                f"{self._spent:.0f} of {self._request.budget_s:.0f} s"
            )

    def follow_up(self) -> None:
        """Reduces what still waits; then, for each fault that tells the releases apart, the gravest first: where it began or
        ended, and a script."""
        self._share = _REDUCED
        self._attribute_waiting()
        self._share = 1
        for fault in sorted((one for one in self._faults if one.tells_apart), key=lambda one: severity(one.finding)):
            if self._is_over:
                return
            assert fault.other is not None
            followed = follow(
                fault.question,
                fault.stack,
                fault.other,
                fault.parameters,
                self._request.published,
                self._request.package,
                self._simplest,
                self._session,
                self._request.detail_of,
                lambda: self._is_over,
            )
            self._faults[self._faults.index(fault)] = msgspec.structs.replace(fault, followed=followed)

    def answer(self) -> Explored:
        """What is known by now."""
        faults = sorted(self._faults, key=lambda fault: (fault.other is None, severity(fault.finding)))
        return Explored(
            request=self._request,
            faults=tuple(faults),
            tries=len(self._tried),
            passed=self._passed,
            left=self._left,
            pairs_covered=self._covered,
            cells=len(self._seen),
            seconds=self._spent,
        )

    # -- what is tried -----------------------------------------------------------------------------------------------

    def _batches(self) -> Iterator[list[Row]]:
        """Each value alone; then covering arrays, each another one and without what is known to crash, and after each,
        random rows near the faults. Failures but crashes are attributed after each of these, when most is known of what is
        sound."""
        drawn = random.Random(self._request.seed)
        yield from _parts(space.alone())
        self._attribute_waiting()
        for number in itertools.count():
            for part in _parts(space.covering(f"{self._request.seed}.{number}", self._forbidden)):
                rows = (space.without(self._seldom(row, drawn), self._forbidden, drawn) for row in part)
                yield [row for row in rows if row is not None]
            self._attribute_waiting()
            self._covered = True
            nearby = space.near(drawn, [fault.needs for fault in self._faults if fault.needs])
            possible = (row for row in nearby if not any(space.has(row, values) for values in self._absent))
            yield from _parts(list(itertools.islice(possible, 2 * AT_ONCE)))
            self._attribute_waiting()

    @property
    def _forbidden(self) -> list[Row]:
        """What is known to crash, and what one of the releases does not have."""
        crashes = [fault.needs for fault in self._faults if fault.question.metric == OUTCOME.name and fault.is_reduced]
        return [*filter(None, crashes), *self._absent]

    def _seldom(self, row: Row, drawn: random.Random) -> Row:
        """Without what takes long, in most rows."""
        return row if drawn.random() < _SHARE_OF_SLOW else {**row, **{name: space.simplest(name) for name in _SLOW}}

    def _parameters(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._base, **row}

    # -- what it shows -----------------------------------------------------------------------------------------------

    def _failures(self, rows: Sequence[Row]) -> list[_FailedTry]:
        """Of both releases, in what was not tried before; what both show alike is one."""
        self._check_budget()
        older, newer = self._request.releases
        row_of = {cells.cell_of(self._simplest, older, self._parameters(row)).workload: row for row in rows}
        row_of = {workload: row for workload, row in row_of.items() if workload not in self._tried}
        if not row_of:
            return []
        # In opposite orders, so that the release that comes later to a configuration finds its truth (`truth_store`).
        ordered = list(row_of.values())
        wanted = [
            *(cells.cell_of(self._simplest, older, self._parameters(row)) for row in ordered),
            *(cells.cell_of(self._simplest, newer, self._parameters(row)) for row in reversed(ordered)),
        ]
        results = newest(self._session.measure(wanted, baseline=older, rounds=0))
        self._tried |= row_of
        self._seen |= results.keys()
        newers = self._of_release(newer, older, results, row_of)
        olders = self._of_release(older, newer, results, row_of)
        alike = newers.keys() & olders.keys()
        for one in (*newers.items(), *olders.items()):
            self._shown.setdefault(one[0][0], set()).add(one[1].family)
        self._passed += len(row_of) - len({workload for workload, *_ in newers.keys() | olders.keys()})
        return [
            *(msgspec.structs.replace(one, other=None) if key in alike else one for key, one in newers.items()),
            *(one for key, one in olders.items() if key not in alike),
        ]

    def _of_release(
        self, stack: Stack, other: Stack, results: Mapping[str, Result], row_of: Mapping[str, Row]
    ) -> dict[tuple[str, ...], _FailedTry]:
        """What the oracles, and a comparison with the other release, say of one release; by workload and what it is."""
        thresholds = self._session.settings.thresholds
        comparison = compare.compare(results.values(), other.id, thresholds, self._request.detail_of)
        found: dict[tuple[str, ...], _FailedTry] = {}
        for group in comparison.groups:
            one = group.headline
            question = _question(one, results)
            if absent := _absent(results[one.cell], row_of[one.workload]):
                self._absent += [values for values in absent if values not in self._absent]
                continue
            if one.stack == stack.id and question is not None:
                failure = _FailedTry(stack=stack, other=other, row=row_of[one.workload], finding=one, question=question)
                found[(one.workload, *failure.family[1:])] = failure
        return found

    # -- what explains it --------------------------------------------------------------------------------------------

    def _attribute_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._attribute_all(waiting)

    def _attribute_all(self, failures: Iterable[_FailedTry]) -> None:
        # What tells the releases apart first, and what both have alike once that is known.
        for failure in sorted(failures, key=lambda one: (one.other is None, *one.order)):
            fault = next((fault for fault in self._faults if self._explains(fault, failure)), None)
            if fault is None:
                self._note(f"new: {failure.finding.message}")
                fault = self._reduced(failure)
                if not fault.is_reduced and self._is_over and any(one.family == fault.family for one in self._faults):
                    self._left += 1
                    continue
                twin = next(
                    (one for one in self._faults if (one.family, one.needs) == (fault.family, fault.needs)), None
                )
                if twin is None:
                    self._faults.append(fault)
                    continue
                fault = twin
            self._faults[self._faults.index(fault)] = msgspec.structs.replace(fault, tries=fault.tries + 1)

    def _explains(self, fault: Fault, failure: _FailedTry) -> bool:
        """Whether the failure has all that the fault needs, or other values in place of the simplest ones, of which it goes
        away when one is set back."""
        if fault.family != failure.family or not fault.is_reduced:
            return False
        if space.has(failure.row, fault.needs):
            return True
        others = space.changed(self._parameters(failure.row))
        if not fault.needs or not fault.needs.keys() <= others.keys():
            return False
        for name in fault.needs:
            trial = {**failure.row, name: space.simplest(name)}
            if requirements.is_valid(trial):
                with contextlib.suppress(_BudgetSpent):
                    return self._shows(failure, [self._parameters(trial)])[0] is Verdict.GOOD
                break
        return False

    def _reduced(self, failure: _FailedTry) -> Fault:
        """Raises nothing where the budget ends: then it is as it was tried."""
        parameters, is_reduced, other = self._parameters(failure.row), False, failure.other
        with contextlib.suppress(_BudgetSpent):
            for asked in _as_asked(failure):
                if self._shows(asked, [parameters])[0] is Verdict.BAD:
                    shows = functools.partial(self._shows, asked)
                    found = reduction.reduce(parameters, FACTORS, shows, self._guesses(failure), vary=False)
                    parameters, is_reduced = found.parameters, True
                    if asked is not failure and self._shows(failure, [parameters])[0] is not Verdict.BAD:
                        other = None
                    break
        return Fault(
            stack=failure.stack,
            other=other,
            question=failure.question,
            finding=failure.finding,
            parameters=parameters,
            variant=cells.cell_of(self._simplest, failure.stack, parameters).variant,
            is_reduced=is_reduced,
        )

    def _guesses(self, failure: _FailedTry) -> list[frozenset[str]]:
        """Factors that may be all that it needs."""
        failed: list[Row] = []
        sound: list[Row] = []
        for workload, row in self._tried.items():
            (failed if failure.family in self._shown.get(workload, ()) else sound).append(row)
        return suspects(failure.row, sound, failed, _GUESSES)

    def _shows(self, failure: _FailedTry, parameter_sets: Sequence[Mapping[str, Any]]) -> list[Verdict]:
        """As `harness.reproduce.reduction.Shows`. What cannot be configured is unknown, and not measured."""
        key = (*failure.family, failure.question.name, failure.other.id if failure.other is not None else "")
        if key not in self._pairs:
            self._pairs[key] = ReleasePair(
                failure.question, failure.stack, failure.other, self._session, self._simplest, self._request.detail_of
            )
        verdicts = dict.fromkeys(range(len(parameter_sets)), Verdict.UNKNOWN)
        for part in _parts([at for at, one in enumerate(parameter_sets) if requirements.is_valid(one)]):
            self._check_budget()
            verdicts |= zip(part, self._pairs[key].shows([parameter_sets[at] for at in part]), strict=True)
        self._seen.update(self._pairs[key].cells)
        return list(verdicts.values())

    # -- the budget --------------------------------------------------------------------------------------------------

    @property
    def _spent(self) -> float:
        return time.monotonic() - self._began

    @property
    def _is_over(self) -> bool:
        others = [*(one.other for one in self._faults), *(one.other for one in self._waiting)]
        is_found = any(other is not None for other in others)
        return self._spent >= (self._share if is_found else 1) * self._request.budget_s

    def _check_budget(self) -> None:
        if self._is_over:
            raise _BudgetSpent


def _as_asked(failure: _FailedTry) -> list[_FailedTry]:
    """As it is; and of the one release alone, where the other one may fail otherwise in this configuration."""
    metric = BY_NAME[failure.question.metric]
    has_truth = metric is OUTCOME or metric.direction is Direction.AT_MOST_ONE
    return (
        [failure, msgspec.structs.replace(failure, other=None)]
        if failure.other is not None and has_truth
        else [failure]
    )


def _question(found: Finding, results: Mapping[str, Result]) -> Question | None:
    """What a finding asks of other cells; None where it is no fault of a release."""
    metric = BY_NAME[found.metric]
    if metric.fails not in _FAULTS or found.kind not in ("wrong", "regression", "failed"):
        return None
    if metric is not OUTCOME:
        return Question(metric.name, found.phase if metric.per_phase else "") if found.relevant else None
    result = results[found.cell]
    return cells.with_error(Question(metric.name), result) if is_measurement(result.outcome) else None


def _absent(result: Result, row: Row) -> list[Row]:
    """The values of a row that call the attribute of the engine whose absence ended it."""
    found = re.search(r"has no attribute '(\w+)'", signature(result.outcome))
    changed = space.changed(row)
    return [{name: changed[name]} for name in changed if found and FACTOR_OF[name].api == found[1]]


def _parts(values: Sequence[_T]) -> Iterator[list[_T]]:
    for begin in range(0, len(values), AT_ONCE):
        yield list(values[begin : begin + AT_ONCE])
