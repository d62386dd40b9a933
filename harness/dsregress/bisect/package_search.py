"""Measures an upgrade of several packages on one workload, and finds the packages that make it worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dsregress.bisect.package_changes import PackageChange, SmallestChanges, Trial, smallest_changes
from dsregress.compare import Comparison, ProblemKind
from dsregress.compare.metrics import OUTCOME
from dsregress.errors import EnvironmentUnavailable, NothingMeasured
from dsregress.model import Cell, Finding, MachineFault, Passed, Result, Verdict
from dsregress.run import pipeline
from dsregress.run.session import Session
from dsregress.store import newest_by_cell
from dsregress.wording.names import outcome_text


class MeasuredUpgrade(msgspec.Struct, frozen=True, kw_only=True):
    """An upgrade that was measured."""

    changes: tuple[PackageChange, ...]
    workload: str
    comparison: Comparison  #: of the old stack and the new one
    worst: Finding | None  #: None if nothing is worse
    smallest: SmallestChanges | None  #: None if nothing is worse, or only one package changes


def measure_upgrade(session: Session, cell: Cell, changes: Sequence[PackageChange]) -> MeasuredUpgrade:
    """Measure the workload of ``cell``, which has the old stack, with all ``changes`` and, if that is worse, with some.

    Raise NothingMeasured if the old stack does not train or the new one cannot be built, EnvironmentUnavailable if the
    machine ended a run, and as `Session.measure`.
    """
    search = _PackageSearch(session, cell)
    whole = search.compare_with(changes)
    if untested := _untested(whole, search.id_with(changes)):
        hint = "choose releases that install together"
        raise NothingMeasured(f"the new packages cannot be tested together: {untested}", where="upgrade", hint=hint)
    worst = _worst(whole, search.id_with(changes))
    smallest = None
    if worst is not None and len(changes) > 1:
        session.watch.note(f"worse with all {len(changes)} packages: {worst.message}")
        smallest = smallest_changes(changes, lambda chosen: search.attempt(chosen, worst))
    return MeasuredUpgrade(
        changes=tuple(changes), workload=cell.workload, comparison=whole, worst=worst, smallest=smallest
    )


class _PackageSearch:
    def __init__(self, session: Session, cell: Cell) -> None:
        self._session, self._cell = session, cell

    def id_with(self, changes: Sequence[PackageChange]) -> str:
        return self._changed(changes).stack.id

    def compare_with(self, changes: Sequence[PackageChange]) -> Comparison:
        """Measure the old stack and the changed one, and compare them."""
        cells = [self._cell, self._changed(changes)]
        found = newest_by_cell(self._session.measure(cells, baseline=self._cell.stack, rounds=0))
        old, new = (found[cell.id] for cell in cells)
        if not isinstance(old.outcome, Passed):
            hint = "choose a job that trains with what is installed"
            raise NothingMeasured(
                f"the old stack gives no answer: {outcome_text(old.outcome)}", where="upgrade", hint=hint
            )
        self._check_machine(new)
        return pipeline.compare_results([old, new], self._cell.stack.id, self._session.settings, self._session.store)

    def attempt(self, changes: Sequence[PackageChange], worst: Finding) -> Trial:
        """Measure the old stack with these changes, and judge whether it shows what is worse."""
        comparison, stack = self.compare_with(changes), self.id_with(changes)
        verdict, text = _trial_verdict(comparison, stack, worst)
        self._session.watch.note(f"{', '.join(one.text for one in changes)}: {text or 'not worse'}")
        return Trial(tuple(changes), verdict, text)

    def _changed(self, changes: Sequence[PackageChange]) -> Cell:
        stack = self._cell.stack
        versions: Mapping[str, str] = {**stack.versions, **{one.package: one.new for one in changes}}
        return msgspec.structs.replace(self._cell, stack=msgspec.structs.replace(stack, versions=versions))

    def _check_machine(self, result: Result) -> None:
        if isinstance(result.outcome, MachineFault):
            hint = "run the same command again: it goes on from there"
            raise EnvironmentUnavailable(outcome_text(result.outcome), where=result.cell.stack.id, hint=hint)


def _untested(comparison: Comparison, stack: str) -> str:
    """Return why a stack does not install or import here, which says nothing of its training; empty if it does."""
    problems = (one for one in comparison.problems if one.kind is ProblemKind.UNTESTABLE and stack in one.having)
    return next((one.worst.message for one in problems), "")


def _worst(comparison: Comparison, stack: str) -> Finding | None:
    """Return the gravest finding for the worse on a stack; None if there is none."""
    return next((one.worst for one in comparison.problems if stack in one.having), None)


def _trial_verdict(comparison: Comparison, stack: str, worst: Finding) -> tuple[Verdict, str]:
    """Return whether a stack shows ``worst``, and what was seen; empty if nothing was."""
    alike = [
        found
        for problem in comparison.problems
        for found in (*problem.findings, *problem.related)
        if found.stack == stack and (found.metric, found.phase) == (worst.metric, worst.phase)
    ]
    same = [found for found in alike if worst.metric != OUTCOME.name or found.message == worst.message]
    if same:
        return Verdict.BAD, same[0].message
    cell = comparison.cells.of(stack, worst.workload)
    if cell is None or not isinstance(cell.result.outcome, Passed):
        return Verdict.UNKNOWN, "not measured" if cell is None else outcome_text(cell.result.outcome)
    return Verdict.GOOD, ""
