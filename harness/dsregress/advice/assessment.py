"""The meaning of each problem for a job: whether its card still has the room, and which release to use. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from dsregress.advice.card_rooms import CardRoom, CardRooms
from dsregress.advice.known_problems import KnownProblems
from dsregress.advice.soundness import Soundness
from dsregress.compare import Comparison, Problem, ProblemKind
from dsregress.compare.finding_groups import gravity, kind_of
from dsregress.compare.metrics import BY_NAME
from dsregress.model import Finding

#: A release to use has nothing that ends a job or spoils what it trains. It has no leak either, unless what it is used in
#: place of is graver. The nearest newer one is looked for first.
_LIMITS = (ProblemKind.LEAK, ProblemKind.OUT_OF_MEMORY)


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what to do about it."""

    problem: Problem
    kind: ProblemKind  #: the problem's; graver if the card has no room, or a smaller one had it before
    room: CardRoom | None  #: of the run that has least; None if it is not about memory, or no card is named
    too_large: frozenset[tuple[str, str]]  #: stack and workload of the runs with `CardRoom.is_too_large`
    release: str  #: id of the stack to use; empty if none is known, or none is needed


def assess(comparison: Comparison, rooms: CardRooms) -> list[Assessment]:
    """Return every problem, the gravest first. ``rooms`` are those of the comparison. Raise ResultsError as they do."""
    return Assessor(comparison, rooms).all()


class Assessor:
    """The one rule for what a problem means and which release to use. ``rooms`` are those of the comparison."""

    def __init__(self, comparison: Comparison, rooms: CardRooms) -> None:
        self._comparison = comparison
        self._rooms = rooms
        self.knowledge = KnownProblems(comparison)
        self._sound = {
            limit: Soundness(comparison, rooms, partial(_is_as_grave, limit=limit, known=self.knowledge))
            for limit in _LIMITS
        }
        self._order = [stack.id for stack in comparison.stacks]

    def all(self) -> list[Assessment]:
        """Return every problem, the gravest first."""
        ruled = map(self.knowledge.ruled, self._comparison.problems)
        return self._sorted(self._assessment(problem, problem.affected) for problem in ruled)

    def met(self, stack: str) -> list[Assessment]:
        """Return the problems that a stack has on workloads on which the baseline is not known to have them, each as it is
        in that stack, the gravest first."""
        found = []
        for problem in self._comparison.problems:
            new = [w for w, having in problem.affected.items() if stack in having and self._baseline not in having]
            if new:
                own = self.knowledge.ruled(_as_in(stack, problem))
                found.append(self._assessment(own, dict.fromkeys(new, (stack,))))
        return self._sorted(found)

    def kept(self, stack: str) -> list[Assessment]:
        """Return the problems that a stack shares with the baseline on some workload, without costs."""
        return [
            one
            for one in self.all()
            if not one.kind.is_cost
            and any(stack in having and self._baseline in having for having in one.problem.affected.values())
        ]

    def card_room(self, stack: str, workload: str) -> CardRoom | None:
        """Return the room of a simulated run on its card; None as from `CardRooms.of`."""
        return self._rooms.of(stack, workload)

    def lost_room(self, stack: str, workload: str) -> CardRoom | None:
        """Return the room of a simulated run if it is too large for a card that is known to hold the baseline's."""
        room = self.card_room(stack, workload)
        return room if room is not None and room.is_too_large and room.baseline is not None else None

    def release(self, kind: ProblemKind, sides: Iterable[Sequence[str]], workloads: Collection[str]) -> str:
        """Return the id of the stack to use instead of one with a problem of this kind on these workloads: the first sound
        one of the first side that has one, and that no advisory rules out for such a job; empty if no side does."""
        limits = _LIMITS if kind < ProblemKind.LEAK else _LIMITS[:1]
        sides = [[stack for stack in side if not self._is_ruled_out(stack, workloads)] for side in sides]
        found = (self._sound[limit].first(side, workloads) for side in sides for limit in limits)
        return next(filter(None, found), "")

    def _is_ruled_out(self, stack: str, workloads: Collection[str]) -> bool:
        return any(self.knowledge.is_ruled_out(stack, one) for one in workloads)

    @property
    def _baseline(self) -> str:
        return self._comparison.baseline

    def _sorted(self, assessed: Iterable[Assessment]) -> list[Assessment]:
        position = {stack: at for at, stack in enumerate(self._order)}
        return sorted(assessed, key=lambda one: gravity(one.kind, one.problem.worst, position[one.problem.until]))

    def _assessment(self, problem: Problem, affected: Mapping[str, Collection[str]]) -> Assessment:
        """Return a problem's assessment. ``affected`` are the runs whose room counts, by workload."""
        rooms = self._rooms_of(problem, affected)
        too_large = frozenset(run for run, one in rooms.items() if one.is_too_large)
        larger = [one for one in rooms.values() if one.needs_larger_card]
        kind = problem.kind
        if too_large:
            kind = min(kind, ProblemKind.OUT_OF_MEMORY)
        elif larger:
            kind = min(kind, ProblemKind.LARGER_CARD)
        counted = larger if kind is ProblemKind.LARGER_CARD else rooms.values()
        tightest = min(counted, key=lambda one: one.own.headroom_bytes, default=None)
        release = ""
        has_no_right_side = problem.worst.intermittent or kind.has_no_right_side
        is_a_reason = not kind.is_cost or kind is ProblemKind.LARGER_CARD
        if problem.setting is None and is_a_reason and not has_no_right_side:
            newer = self._order[self._order.index(problem.until) + 1 :]
            older = self._order[: self._order.index(problem.since)][::-1]
            free = [[stack for stack in side if stack in problem.free] for side in (newer, older)]
            # Rather a setting, as `audit` says, than an older release.
            sides = free[:1] if self.knowledge.ending_settings(problem) else free
            release = self.release(kind, sides, problem.affected)
        return Assessment(problem=problem, kind=kind, room=tightest, too_large=too_large, release=release)

    def _rooms_of(self, problem: Problem, affected: Mapping[str, Collection[str]]) -> dict[tuple[str, str], CardRoom]:
        """Return stack and workload -> the room of a simulated run; empty unless the problem is about memory. A run that has
        this level below a higher one, of another problem, has that one's room."""
        if not any(BY_NAME[one.metric].fails == "memory" for one in problem.findings):
            return {}
        own = {(one.stack, one.workload) for one in problem.findings}
        runs = ((stack, workload) for workload, stacks in affected.items() for stack in stacks)
        runs = (run for run in runs if run in own)
        return {run: found for run in runs if (found := self._rooms.of(*run)) is not None}


def _as_in(stack: str, problem: Problem) -> Problem:
    """Return a problem by its findings in one stack: advisories may know those of another one by another cause."""
    own = tuple(one for one in problem.findings if one.stack == stack)
    return msgspec.structs.replace(problem, findings=own or problem.findings)


def _is_as_grave(found: Finding, limit: ProblemKind, known: KnownProblems) -> bool:
    """Return True for a failure or regression as grave as ``limit``, or graver, which rules a release out."""
    is_worse = found.kind in ("failed", "wrong", "regression")
    return is_worse and kind_of(found) <= limit and not known.is_known_change(found)
