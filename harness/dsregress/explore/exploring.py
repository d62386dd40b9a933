"""Two releases, tried in configurations that no scenario lists: faults that one has and the other does not, reduced to their
conditions.

Every try is a cell of the scenario ``minimal_training``, measured in the ordinary way in both releases and judged by all
oracles and against the other one. A failure that no known fault explains is reduced to the smallest cell that shows it
(`dsregress.reproduce.reduction`). A fault explains a failure of its kind if the configuration has all that the fault
needs, or if its values of the same factors show it alone.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from dsregress.compare.comparison import DetailOf
from dsregress.compare.finding_groups import severity
from dsregress.explore import release_faults, space
from dsregress.explore.follow_up import Followed, ReleaseDifference, change_of, confirmation_of
from dsregress.explore.release_faults import ChangedDefault, FailedTry, Fault
from dsregress.explore.space import Row
from dsregress.explore.suspects import suspects
from dsregress.explore.value_pairs import TriedPairs
from dsregress.model import Stack, Verdict, is_measurement
from dsregress.probe.factors import FACTORS
from dsregress.probe.scenario import Scenario
from dsregress.reproduce import cells, reduction, requirements
from dsregress.reproduce.cells import ReleasePair
from dsregress.run.session import Session
from dsregress.store import newest_by_cell
from dsregress.system import processor_time
from dsregress.wording.quantities import plural

_T = TypeVar("_T")

#: Shares of the budget after which, if something was found, nothing new is tried, and nothing more is reduced.
_TRIED, _REDUCED = 0.6, 0.8

#: Tries that are measured between two checks of the clock.
AT_ONCE = 6

#: Guesses at the factors of a failure that are tried before its values are set back one by one.
_GUESSES = 2 * AT_ONCE

#: Factors with which a try takes many times as long: most rows do without.
_SLOW = ("compile_backend",)

#: Successive batches without an untried row after which nothing is left.
_BARREN = 20


class ExploreQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The releases to explore, and the budget."""

    releases: tuple[Stack, Stack]  #: in version order
    published: tuple[Stack, ...]  #: these, and all releases between them, in version order
    package: str  #: in which they differ
    budget_s: float
    seed: int
    detail_of: DetailOf  #: of what the session measures


class Explored(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to ``explore``."""

    request: ExploreQuery
    faults: tuple[Fault, ...]  #: the gravest first; those of one release alone before those of both
    defaults: tuple[ChangedDefault, ...]  #: settings in force that differ
    tries: int  #: configurations that were measured in both releases
    passed: int  #: that passed in both, and are alike
    unmeasured: int  #: configurations that the machine, or the harness itself, ended in a release
    why_unmeasured: str  #: the signature of the last of these
    left: int  #: failures that were not reduced when the budget ended, of kinds that faults have: they may be the same
    pairs_covered: float  #: share of the pairs of values that were together in a try that ran to its end
    cells: int  #: results that were read, those of reductions included
    seconds: float
    processor_s: float  #: that all processes used
    interruption: KeyboardInterrupt | None = None  #: that ended it; for the caller to raise once this is reported


class _BudgetSpent(Exception):
    """The time for an exploration is over."""


def explore(request: ExploreQuery, simplest: Scenario, session: Session, note: Callable[[str], None]) -> Explored:
    """Try configurations until the budget is spent or the user interrupts. ``note`` gets a line of progress after every few.

    Raise the errors of a session except KeyboardInterrupt. Everything measured until then is stored, and a later exploration
    with the same seed uses it.
    """
    session.build(request.releases)
    session.keep_open()
    exploration = _Exploration(request, simplest, session, note)
    has_more = True
    try:
        while has_more and not exploration.is_over:
            has_more = exploration.run()
            exploration.follow_up()
    except KeyboardInterrupt as interruption:
        return exploration.answer(interruption)
    return exploration.answer()


class _Exploration:
    def __init__(
        self, request: ExploreQuery, simplest: Scenario, session: Session, note: Callable[[str], None]
    ) -> None:
        self._request, self._simplest, self._session, self._note = request, simplest, session, note
        self._base = cells.base_parameters(simplest)
        self._drawn = random.Random(request.seed)
        self._began, self._processor_before_s = time.monotonic(), processor_time.spent_s()
        self._ends_s = request.budget_s  #: of what is done now
        self._batches = self._all_batches()
        self._faults: list[Fault] = []
        self._defaults: dict[tuple[str, str, str], ChangedDefault] = {}
        self._tried: dict[str, Row] = {}  #: by workload
        self._shown: dict[str, set[tuple[str, ...]]] = {}  #: workload -> the families of what it showed
        self._pairs_tried = [TriedPairs()]  #: of all rows; then of those beside each base
        self._waiting: list[FailedTry] = []  #: to be attributed once more is known of what is sound
        self._passed = 0
        self._unmeasured: dict[str, str] = {}  # workload -> signature
        self._absent: list[Row] = []  #: values that call what one of the releases does not have
        self._seen: set[str] = set()  #: cells
        self._release_pairs: dict[tuple[str, ...], ReleasePair] = {}

    def run(self) -> bool:
        """Try the next configurations until their share of the remaining budget is spent. Return True if more are left."""
        self._ends_s = self._spent + _TRIED * (self._request.budget_s - self._spent)
        with contextlib.suppress(_BudgetSpent):
            for rows in self._batches:
                self._try(rows)
                self._check_budget()
            return False
        return True

    def _all_batches(self) -> Iterator[Sequence[Row]]:
        """Yield everyday jobs; each value with them; every two values together; rows near the faults. Failures other than
        crashes are attributed after each of these, when most is known about sound configurations."""
        yield space.everyday()
        self._attribute_hiding()
        bases = []
        for base in space.everyday():
            sound: Row | None = base
            while sound is not None and (sound := self._without_what_hides(base)) != base and sound is not None:
                base = sound
                yield [base]
                self._attribute_hiding()
            bases += [] if sound is None else [base]
        bases = bases or [space.simplest_row()]
        for rows in _halves_of(space.neighbours(bases)):
            yield [row for row in rows if not self._is_forbidden(row)]
        self._attribute_waiting()
        self._pairs_tried += map(TriedPairs, bases)
        barren = 0
        while barren < _BARREN:
            before = len(self._tried)
            beside = [bases, *([base] for base in bases)]
            for pairs, allowed in zip(self._pairs_tried, beside, strict=True):
                forbidden = release_faults.forbidden(self._faults, self._absent)
                if rows := pairs.rows(allowed, 2 * AT_ONCE, self._drawn, forbidden, _SLOW):
                    break
            yield from _halves_of(rows)
            self._attribute_waiting()
            yield self._near(bases)
            self._attribute_waiting()
            barren = barren + 1 if len(self._tried) == before else 0

    def follow_up(self) -> None:
        """Reduce the failures that still wait. Then, for each fault that tells the releases apart, the gravest first, find
        the release where it began or ended, and write a script."""
        self._ends_s = self._spent + (1 - _REDUCED) / (1 - _TRIED) * (self._request.budget_s - self._spent)
        self._attribute_waiting(all_of_them=True)
        self._ends_s = self._request.budget_s
        new = (one for one in self._faults if one.tells_apart and one.followed == Followed())
        apart = sorted(new, key=lambda one: severity(one.finding))
        for fault in apart:
            if self.is_over:
                break
            difference = self._difference(fault)
            change = change_of(difference, self._simplest, self._session, self._request.detail_of, lambda: self.is_over)
            followed = Followed(change=change)
            if not self.is_over:
                confirmation = confirmation_of(difference, self._simplest, self._session)
                followed = Followed(change=change, confirmation=confirmation)
            self._replace(fault, followed=followed)

    def answer(self, interruption: KeyboardInterrupt | None = None) -> Explored:
        """Return the present state. Of failures that were not reduced, the first of each kind without a fault stands for its
        kind."""
        left = 0
        for failure in sorted(self._waiting, key=lambda one: one.order):
            if any(fault.family == failure.family for fault in self._faults):
                left += not any(fault.may_explain(failure) and fault.is_in(failure.row) for fault in self._faults)
            else:
                now = self._spent, self._processor_s
                self._faults.append(self._fault(failure, self._cell_parameters(failure.row), now, is_reduced=False))
        found = sorted(self._faults, key=lambda fault: (fault.other is None, severity(fault.finding)))
        return Explored(
            request=self._request,
            faults=tuple(found),
            defaults=tuple(self._defaults.values()),
            tries=len(self._tried) - len(self._unmeasured),
            passed=self._passed,
            unmeasured=len(self._unmeasured),
            why_unmeasured=next(reversed(self._unmeasured.values()), ""),
            left=left,
            pairs_covered=self._pairs_tried[0].share,
            cells=len(self._seen),
            seconds=self._spent,
            processor_s=self._processor_s,
            interruption=interruption,
        )

    # -- what is tried -----------------------------------------------------------------------------------------------

    def _without_what_hides(self, base: Row) -> Row | None:
        """Return ``base`` without the value that masks other failures, ``base`` itself if none does, None if the value
        cannot be removed."""
        hiding = [fault for fault in self._faults if fault.hides_others and fault.is_in(base)]
        if not hiding:
            return base
        needs = next(needs for needs in hiding[0].all_needs if space.has_values(base, needs))
        trials = ({**base, name: space.simplest(name)} for name in space.EVERYDAY if name in needs)
        return next((trial for trial in trials if requirements.is_valid(trial) and trial != base), None)

    def _near(self, bases: Sequence[Row]) -> list[Row]:
        """Return rows near the faults that were found."""
        found = [fault.needs for fault in self._faults if fault.is_reduced and fault.needs]
        if not found:
            return []
        nearby = space.near(bases, found, self._drawn, release_faults.forbidden(self._faults, self._absent))
        return list(itertools.islice(nearby, AT_ONCE))

    def _is_forbidden(self, row: Row) -> bool:
        return any(space.has_values(row, values) for values in release_faults.forbidden(self._faults, self._absent))

    def _try(self, rows: Sequence[Row]) -> None:
        """Measure the rows that were not tried before in both releases."""
        self._check_budget()
        older, newer = self._request.releases
        row_of = {cells.cell_of(self._simplest, older, self._cell_parameters(row)).workload: row for row in rows}
        row_of = {workload: row for workload, row in row_of.items() if workload not in self._tried}
        if not row_of:
            return
        # In opposite orders, so that the release that comes later to a configuration finds its truth (`truth_store`).
        ordered = list(row_of.values())
        wanted = [
            *(cells.cell_of(self._simplest, older, self._cell_parameters(row)) for row in ordered),
            *(cells.cell_of(self._simplest, newer, self._cell_parameters(row)) for row in reversed(ordered)),
        ]
        results = newest_by_cell(self._session.measure(wanted, baseline=older, rounds=0))
        self._tried |= row_of
        self._seen |= results.keys()
        lacking = [one for one in results.values() if not is_measurement(one.outcome)]
        self._unmeasured |= {one.cell.workload: getattr(one.outcome, "signature", "") for one in lacking}
        shown = release_faults.judge_rows(
            results, row_of, self._request.releases, self._session.settings.thresholds, self._request.detail_of
        )
        self._shown |= shown.families
        self._absent += [values for values in shown.absent if values not in self._absent]
        self._passed += len(row_of.keys() - shown.families.keys() - self._unmeasured.keys())
        for default in shown.defaults:
            self._defaults.setdefault((default.key, default.older, default.newer), default)
        crashed = [one for one in shown.failures if one.is_crash]
        hidden = [*(one.row for one in crashed), *(row for name, row in row_of.items() if name in self._unmeasured)]
        for pairs, row in itertools.product(self._pairs_tried, (row for row in ordered if row not in hidden)):
            pairs.tried(row)
        # What crashes hides all else: it is known before the next rows, which then do without.
        self._attribute_all(crashed)
        self._waiting += [one for one in shown.failures if not one.is_crash]
        self._note(
            f"{plural(len(self._tried), 'configuration')} tried, {plural(len(self._faults), 'fault')}; "
            f"{self._spent:.0f} of {self._request.budget_s:.0f} s"
        )

    def _cell_parameters(self, row: Mapping[str, object]) -> dict[str, object]:
        return {**self._base, **row}

    # -- what explains it --------------------------------------------------------------------------------------------

    def _attribute_hiding(self) -> None:
        """Attribute the waiting failures that mask all others in their configuration."""
        hiding = [one for one in self._waiting if one.hides_others]
        self._waiting = [one for one in self._waiting if not one.hides_others]
        self._attribute_all(hiding)

    def _attribute_waiting(self, *, all_of_them: bool = False) -> None:
        """Attribute the waiting failures that tell the releases apart, except costs, and those that mask all others; the
        rest at the end. Costs are many: each release changes the collectives of most configurations under stage 3, and
        graver failures are still to be found."""
        now = [
            one
            for one in self._waiting
            if all_of_them or one.hides_others or (one.other is not None and not one.is_cost)
        ]
        self._waiting = [one for one in self._waiting if one not in now]
        self._attribute_all(now)

    def _attribute_all(self, failures: Iterable[FailedTry]) -> None:
        """Attribute failures in order. On an interruption the rest waits, including the one that was begun."""
        left = sorted(failures, key=lambda one: one.order)
        try:
            while left:
                self._attribute(left[0])
                del left[0]
        finally:
            self._waiting += left

    def _attribute(self, failure: FailedTry) -> None:
        if self._explained(failure):
            return
        if self.is_over:
            self._waiting.append(failure)  # for when there is time again
            return
        self._note(f"new: {failure.finding.message}")
        fault = self._reduced(failure)
        if not fault.is_reduced and self.is_over:
            self._waiting.append(failure)
            return
        same_kind = [one for one in self._faults if one.family == fault.family]
        twin = next((one for one in same_kind if one.needs == fault.needs), None)
        if twin is None:
            self._faults.append(fault)
        else:
            self._replace(twin, tries=twin.tries + 1)

    def _explained(self, failure: FailedTry) -> bool:
        """If a known fault explains the failure, count it there and return True."""
        same_kind = [fault for fault in self._faults if fault.may_explain(failure)]
        for fault in same_kind:
            if fault.is_in(failure.row):
                self._replace(fault, tries=fault.tries + 1)
                return True
        for fault in same_kind:
            values = {name: failure.row[name] for name in fault.all_needs[0]}
            if values != space.varied_values({**space.simplest_row(), **values}):
                continue  # one of them is the simplest
            with contextlib.suppress(_BudgetSpent):
                if self._shows(failure, [self._cell_parameters({**space.simplest_row(), **values})])[0] is Verdict.BAD:
                    self._replace(fault, tries=fault.tries + 1, also=(*fault.also, values))
                    return True
        return False

    def _replace(self, fault: Fault, **changes: object) -> Fault:
        new = msgspec.structs.replace(fault, **changes)
        self._faults[self._faults.index(fault)] = new
        return new

    def _reduced(self, failure: FailedTry) -> Fault:
        """Return the fault of a failure, reduced to its smallest cell, or as it was tried if the budget ends first."""
        parameters, is_reduced, other = self._cell_parameters(failure.row), False, failure.other
        found = self._spent, self._processor_s
        with contextlib.suppress(_BudgetSpent):
            for one in failure.alternatives:
                if self._shows(one, [parameters])[0] is Verdict.BAD:
                    shows = functools.partial(self._shows_another, one)
                    reduced = reduction.reduce(parameters, FACTORS, shows, self._guesses(failure), vary=False)
                    parameters, is_reduced = reduced.parameters, True
                    if one is not failure and self._shows(failure, [parameters])[0] is not Verdict.BAD:
                        other = None
                    break
        return self._fault(msgspec.structs.replace(failure, other=other), parameters, found, is_reduced=is_reduced)

    def _fault(
        self, failure: FailedTry, parameters: dict[str, object], found: tuple[float, float], *, is_reduced: bool
    ) -> Fault:
        """Return a fault. ``found`` is its time in seconds, of the clock and of CPU time."""
        return Fault(
            stack=failure.stack,
            other=failure.other,
            question=failure.question,
            finding=failure.finding,
            parameters=parameters,
            variant=cells.cell_of(self._simplest, failure.stack, parameters).variant,
            is_reduced=is_reduced,
            found_s=found[0],
            found_processor_s=found[1],
        )

    def _guesses(self, failure: FailedTry) -> list[frozenset[str]]:
        """Return sets of factors that may be all that the failure needs."""
        failed: list[Row] = []
        sound: list[Row] = []
        for workload, row in self._tried.items():
            (failed if failure.family in self._shown.get(workload, ()) else sound).append(row)
        return suspects(failure.row, sound, failed, _GUESSES)

    def _shows_another(self, failure: FailedTry, parameter_sets: Sequence[Mapping[str, object]]) -> list[Verdict]:
        """Return the same as `_shows`, for a failure that no known fault explains: a reduction must not end at a known
        fault. Sets that known faults explain are Unknown, and are not measured."""
        known = [fault for fault in self._faults if fault.may_explain(failure)]
        open_sets = [one for one in parameter_sets if not any(fault.is_in(one) for fault in known)]
        verdicts = iter(self._shows(failure, open_sets))
        return [next(verdicts) if one in open_sets else Verdict.UNKNOWN for one in parameter_sets]

    def _shows(self, failure: FailedTry, parameter_sets: Sequence[Mapping[str, object]]) -> list[Verdict]:
        """Judge each set, as `dsregress.reproduce.reduction.Shows`. Sets that cannot be configured are Unknown, and are not
        measured."""
        key = (*failure.family, failure.question.name, failure.other.id if failure.other is not None else "")
        if key not in self._release_pairs:
            self._release_pairs[key] = ReleasePair(
                failure.question, failure.stack, failure.other, self._session, self._simplest, self._request.detail_of
            )
        verdicts = dict.fromkeys(range(len(parameter_sets)), Verdict.UNKNOWN)
        for part in _halves_of([at for at, one in enumerate(parameter_sets) if requirements.is_valid(one)]):
            self._check_budget()
            shown = self._release_pairs[key].shows([parameter_sets[at] for at in part])
            verdicts |= zip(part, shown, strict=True)
        self._seen.update(self._release_pairs[key].cells)
        return list(verdicts.values())

    # -- what becomes of it ------------------------------------------------------------------------------------------

    def _difference(self, fault: Fault) -> ReleaseDifference:
        assert fault.other is not None
        return ReleaseDifference(
            question=fault.question,
            stack=fault.stack,
            other=fault.other,
            parameters=fault.parameters,
            published=self._request.published,
            package=self._request.package,
        )

    # -- the budget --------------------------------------------------------------------------------------------------

    @property
    def _spent(self) -> float:
        return time.monotonic() - self._began

    @property
    def _processor_s(self) -> float:
        return processor_time.spent_s() - self._processor_before_s

    @property
    def is_over(self) -> bool:
        """True if the time for the present step is spent. Until a difference between the releases is found there is nothing
        to follow up, so trying gets the whole budget."""
        others = [*(one.other for one in self._faults), *(one.other for one in self._waiting)]
        is_found = any(other is not None for other in others)
        return self._spent >= (self._ends_s if is_found else self._request.budget_s)

    def _check_budget(self) -> None:
        if self.is_over:
            raise _BudgetSpent


def _halves_of(values: Sequence[_T]) -> Iterator[list[_T]]:
    for begin in range(0, len(values), AT_ONCE):
        yield list(values[begin : begin + AT_ONCE])
