"""The verdict on each measured release of a workload: that of the advisories on the workload's job, and beside it what was
measured and no advisory knows. The rule of ``recommend``, for pages and badges. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dsregress.advice.soundness import Soundness
from dsregress.advisories.advisory import Advisory
from dsregress.advisories.effects import decides
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict
from dsregress.compare import ProblemKind
from dsregress.compare.finding_groups import kind_of
from dsregress.compare.metrics import BY_NAME
from dsregress.model import Failed, Finding, OutOfMemory, Passed, TimedOut
from dsregress.report.context import ReportContext
from dsregress.report.rows import is_worse
from dsregress.wording.names import outcome_text


class ReleaseVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One release on one workload."""

    against: tuple[str, ...] = ()  #: ids of advisories that rule it out, and words by which what none knows fails a run
    conditions: tuple[str, ...] = ()  #: ids of advisories that a setting, or a release of another package, ends
    differs: tuple[str, ...] = ()  #: words of what costs more, and of what differs where no truth says which is right
    is_judged: bool = True  #: False if it was not measured to its end, for a reason that no advisory knows

    @property
    def is_advised(self) -> bool:
        """True if it can be pinned, perhaps with a setting."""
        return self.is_judged and not self.against


class ReleaseVerdicts:
    """The verdicts of a comparison."""

    def __init__(self, context: ReportContext) -> None:
        self._context = context
        self._known = context.knowledge
        self._of_problem = {
            found.key: known
            for problem in context.comparison.problems
            if (known := self._known.of_problem(problem))
            for found in problem.findings
        }
        self._sound = Soundness(context.comparison, context.rooms, self._is_open)
        self._crashes = {
            (stack, workload)
            for problem in context.comparison.problems
            if problem.kind in (ProblemKind.CRASH, ProblemKind.OUT_OF_MEMORY)
            for workload, having in problem.affected.items()
            for stack in having
        }
        self._found: dict[tuple[str, str], ReleaseVerdict] = {}

    def of(self, stack: str, workload: str) -> ReleaseVerdict:
        """Return the verdict on a release that was measured on the workload."""
        if (stack, workload) not in self._found:
            self._found[stack, workload] = self._verdict(stack, workload)
        return self._found[stack, workload]

    def is_judged(self, stack: str, workload: str) -> bool:
        """Return True if the run can be told by: it passed, all that is judged was, or it ended as an advisory knows."""
        cell = self._context.comparison.cells.of(stack, workload)
        if cell is None:
            return False
        outcome = cell.result.outcome
        if not isinstance(outcome, Passed) and self._known.of_outcome(stack, workload, outcome_text(outcome)):
            return True
        return not self._sound.unknown(cell)

    def advised(self, stack: str, workload: str) -> UpgradeAnswer | None:
        """Return the advisories' verdict on the release; None if nothing is known of the workload's job."""
        return self._known.judged_release(stack, workload)

    def knows_finding(self, found: Finding) -> bool:
        """Return True for a finding that does not decide, as the advisories do that know the job."""
        return (is_worse(found) and not self._is_open(found)) or self._is_small(found)

    def knows_end(self, stack: str, workload: str, error: str) -> bool:
        """Return True for an error by which a run ended that does not decide, as the advisories do that know it."""
        known = self._known.of_outcome(stack, workload, error)
        against, conditions = self._by_advisories(stack, workload)
        return bool(known) and self._of_reader(stack, workload, known) <= {*against, *conditions}

    def pick(self, workload: str) -> str:
        """Return the id of the newest release to pin; empty if there is none."""
        measured = self._context.comparison.cells.stacks_of(workload)
        newest_first = (one for one in reversed(self._context.comparison.names) if one in measured)
        return next((one for one in newest_first if self.of(one, workload).is_advised), "")

    def _verdict(self, stack: str, workload: str) -> ReleaseVerdict:
        findings = self._sound.findings(stack, workload)
        beside = [found for found in findings if self._is_beside(found)]
        measured = {name for found in findings if found not in beside for name in self._names(found)}
        measured |= self._ending(stack, workload)
        measured |= {"memory"} if not self._sound.has_room(stack, workload) else set()
        against, conditions = self._by_advisories(stack, workload)
        # Where a card is named, it counts whether the memory fits.
        has_card = self._context.rooms.of(stack, workload) is not None
        differs = {_word(found) for found in beside} - ({"memory"} if has_card else set())
        return ReleaseVerdict(
            against=tuple(dict.fromkeys((*against, *sorted(measured - set(conditions))))),
            conditions=conditions,
            differs=tuple(sorted(differs)),
            is_judged=self.is_judged(stack, workload),
        )

    def _is_open(self, found: Finding) -> bool:
        """Return True for a finding that no advisory knows in this job, and none calls right that knows its problem."""
        if not is_worse(found) or self._known.of_finding(found):
            return False
        known = self._of_problem.get(found.key, ())
        return not known or any(decides(one) for one in known)

    def _is_beside(self, found: Finding) -> bool:
        """Return True for a cost, for what no truth decides, and for bytes that the small model of a known job holds."""
        kind = kind_of(found)
        return kind.is_cost or kind.has_no_right_side or self._is_small(found)

    def _is_small(self, found: Finding) -> bool:
        is_of_memory = (
            kind_of(found) in (ProblemKind.LEAK, ProblemKind.MORE) and BY_NAME[found.metric].fails == "memory"
        )
        return is_of_memory and found.device == "cpu" and self._known.knows_job(found.workload)

    def _names(self, found: Finding) -> tuple[str, ...]:
        """Return the ids of the advisories that know a finding's problem, else the word by which it fails a run."""
        known = tuple(one.id for one in self._of_problem.get(found.key, ()) if decides(one))
        return known or (_word(found),)

    def _by_advisories(self, stack: str, workload: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the ids of the advisories against a release, and of those that something else ends."""
        answer = self._known.judged_release(stack, workload)
        if answer is None:
            return (), ()
        against = answer.against if answer.verdict is Verdict.NO else ()
        ids = tuple(one.matched.advisory.id for one in answer.conditions)
        return tuple(one.advisory.id for one in against), ids

    def _ending(self, stack: str, workload: str) -> set[str]:
        """Return the ids of the advisories that know how a run ended, else the word for it; empty if it ran to its end, or
        ended by what is no release's. In the baseline it is no finding, and counts all the same."""
        outcome = self._context.comparison.ended.get(workload, {}).get(stack)
        if not isinstance(outcome, Failed | OutOfMemory | TimedOut):
            return set()
        if known := self._known.of_outcome(stack, workload, outcome_text(outcome)):
            return self._of_reader(stack, workload, known)
        return {"crash"} if (stack, workload) in self._crashes else set()

    def _of_reader(self, stack: str, workload: str, known: Iterable[Advisory]) -> set[str]:
        """Return the ids of those that may concern the reader's job as well."""
        return {one.id for one in known if self._known.may_concern_reader(stack, workload, one)}


def _word(found: Finding) -> str:
    return BY_NAME[found.metric].fails or "worse"
