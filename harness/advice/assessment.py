"""What each problem means to a job: whether its card still has the room, and which release to use. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from harness.advice.card_rooms import CardRoom, CardRooms
from harness.advice.soundness import Soundness
from harness.compare import Comparison, Problem, ProblemKind
from harness.compare.groups import kind_of, severity
from harness.compare.metrics import BY_NAME
from harness.model import Finding

#: A release to use has nothing that ends a job or spoils what it trains. It has no leak either, unless what it is used in
#: place of is graver. The nearest newer one is looked for first.
_LIMITS = (ProblemKind.LEAK, ProblemKind.OUT_OF_MEMORY)


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what to do about it."""

    problem: Problem
    kind: ProblemKind  #: the problem's; out of memory where the card has no room
    room: CardRoom | None  #: the least of its runs; None where it is not about memory, or no card is named
    too_large: frozenset[tuple[str, str]]  #: stack and workload of the runs with `CardRoom.is_too_large`
    release: str  #: id of the stack to use; empty where none is known, or none is needed


def assess(comparison: Comparison, rooms: CardRooms) -> list[Assessment]:
    """Every problem, the gravest first. ``rooms`` are those of the comparison. Raises ResultsError as they do."""
    sound = {limit: soundness(comparison, rooms, limit) for limit in _LIMITS}
    position = {stack.id: at for at, stack in enumerate(comparison.stacks)}
    return sorted(
        (_assessment(comparison, rooms, sound, problem) for problem in comparison.problems),
        key=lambda one: (one.kind, -position[one.problem.until], severity(one.problem.worst)),
    )


def soundness(comparison: Comparison, rooms: CardRooms, limit: ProblemKind = ProblemKind.LEAK) -> Soundness:
    """Which releases train a workload without anything as grave as ``limit``."""
    return Soundness(comparison, rooms, partial(_is_as_grave, limit=limit))


def _is_as_grave(found: Finding, limit: ProblemKind) -> bool:
    return found.kind in ("failed", "wrong", "regression") and kind_of(found) <= limit


def _assessment(
    comparison: Comparison, rooms: CardRooms, sound: Mapping[ProblemKind, Soundness], problem: Problem
) -> Assessment:
    found = _rooms_of(problem, rooms)
    tightest = min(found.values(), key=lambda one: one.own.headroom_bytes, default=None)
    too_large = frozenset(cell for cell, one in found.items() if one.is_too_large)
    kind = problem.kind
    if too_large:
        kind = min(kind, ProblemKind.OUT_OF_MEMORY)
    release = ""
    if problem.setting is None and not kind.is_cost:
        order = [stack.id for stack in comparison.stacks]
        newer = order[order.index(problem.until) + 1 :]
        older = order[: order.index(problem.since)][::-1]
        free = [[stack for stack in side if stack in problem.free] for side in (newer, older)]
        limits = _LIMITS if kind < ProblemKind.LEAK else _LIMITS[:1]
        firsts = (sound[limit].first(side, problem.affected) for side in free for limit in limits)
        release = next(filter(None, firsts), "")
    return Assessment(problem=problem, kind=kind, room=tightest, too_large=too_large, release=release)


def _rooms_of(problem: Problem, rooms: CardRooms) -> dict[tuple[str, str], CardRoom]:
    """Stack and workload -> its room, of the runs of a problem that is about memory."""
    if not any(BY_NAME[one.metric].fails == "memory" for one in problem.findings):
        return {}
    runs = ((stack, workload) for workload, stacks in problem.affected.items() for stack in stacks)
    return {run: found for run in runs if (found := rooms.of(*run)) is not None}
