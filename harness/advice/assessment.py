"""What each problem means to a job: whether its card still has the room, and which release to use. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from harness.advice.capacity import FitVerdict
from harness.advice.soundness import Soundness, named_card, room
from harness.compare import Comparison, Problem, ProblemKind
from harness.compare.groups import kind_of, severity
from harness.compare.metrics import BY_NAME
from harness.model import Finding

#: More work or time is the price of a release, not a reason to leave it.
_COSTS = (ProblemKind.SLOWER, ProblemKind.MORE)

#: A release to use has nothing that ends a job or spoils what it trains. It has no leak either, unless what it is used in
#: place of is graver. The nearest newer one is looked for first.
_LIMITS = (ProblemKind.LEAK, ProblemKind.OUT_OF_MEMORY)


class CardRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated run of a problem that has the least room on the card that it names."""

    card: str
    workload: str
    least: FitVerdict
    baseline: FitVerdict | None  #: of the baseline's run of the same workload


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """A problem, and what to do about it."""

    problem: Problem
    kind: ProblemKind  #: the problem's; out of memory where the card has no room
    room: CardRoom | None  #: None where it is not about memory, or no card is named
    too_large: frozenset[tuple[str, str]]  #: stack and workload of the runs that do not fit, unlike the baseline's
    release: str  #: id of the stack to use; empty where none is known, or none is needed


def assess(comparison: Comparison) -> list[Assessment]:
    """Every problem, the gravest first."""
    sound = {limit: soundness(comparison, limit) for limit in _LIMITS}
    position = {stack.id: at for at, stack in enumerate(comparison.stacks)}
    return sorted(
        (_assessment(comparison, sound, problem) for problem in comparison.problems),
        key=lambda one: (one.kind, -position[one.problem.until], severity(one.problem.worst)),
    )


def soundness(comparison: Comparison, limit: ProblemKind = ProblemKind.LEAK) -> Soundness:
    """Which releases train a workload without anything as grave as ``limit``."""
    return Soundness(comparison, partial(_is_as_grave, limit=limit))


def _is_as_grave(found: Finding, limit: ProblemKind) -> bool:
    return found.kind in ("failed", "wrong", "regression") and kind_of(found) <= limit


def _assessment(comparison: Comparison, sound: Mapping[ProblemKind, Soundness], problem: Problem) -> Assessment:
    rooms = _rooms(comparison, problem)
    tightest = min(rooms.values(), key=lambda one: one.least.headroom_bytes, default=None)
    too_large = frozenset(
        cell for cell, one in rooms.items() if not one.least.fits and (one.baseline is None or one.baseline.fits)
    )
    kind = problem.kind
    if too_large:
        kind = min(kind, ProblemKind.OUT_OF_MEMORY)
    release = ""
    if problem.setting is None and kind not in _COSTS:
        order = [stack.id for stack in comparison.stacks]
        newer = order[order.index(problem.until) + 1 :]
        older = order[: order.index(problem.since)][::-1]
        free = [[stack for stack in side if stack in problem.free] for side in (newer, older)]
        limits = _LIMITS if kind < ProblemKind.LEAK else _LIMITS[:1]
        found = (sound[limit].first(side, problem.affected) for side in free for limit in limits)
        release = next(filter(None, found), "")
    return Assessment(problem=problem, kind=kind, room=tightest, too_large=too_large, release=release)


def _rooms(comparison: Comparison, problem: Problem) -> dict[tuple[str, str], CardRoom]:
    """Stack and workload -> the room of a simulated run, where the problem is about memory."""
    if not any(BY_NAME[one.metric].fails == "memory" for one in problem.findings):
        return {}
    found = {}
    for workload, stacks in problem.affected.items():
        if not workload.endswith("/sim"):
            continue
        base = comparison.cells.of(comparison.baseline, workload)
        for stack in stacks:
            cell = comparison.cells.of(stack, workload)
            if cell is not None and (card := named_card(cell)) and (least := room(cell, card)):
                theirs = room(base, card) if base is not None else None
                found[stack, workload] = CardRoom(card=card.name, workload=workload, least=least, baseline=theirs)
    return found
