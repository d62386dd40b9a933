"""Judge an upgrade of one package: the problems of the target release, and the release to upgrade to instead. Pure.

The comparison's baseline is the installed release. `dsregress.compare.problems` finds the problems, and
`dsregress.advice.assessment` decides what they mean and which release to use; this module combines them for one target.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from dsregress.advice.assessment import Assessment, Assessor
from dsregress.advice.card_rooms import CardRoom, CardRooms
from dsregress.advice.gpus import Card
from dsregress.compare import Comparison, ProblemKind
from dsregress.compare.comparison import EVERYTHING


class UpgradeVerdict(Enum):
    """The verdict on an upgrade."""

    YES = "yes"
    IF_SET = "if set"  #: once changed defaults are set to what they were
    NO = "no"
    UNKNOWN = "unknown"


class UpgradeJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """A release, judged against the installed one."""

    verdict: UpgradeVerdict
    met: tuple[Assessment, ...] = ()  #: the problems that the installed release does not have, the gravest first
    lost: tuple[CardRoom, ...] = ()  #: runs that no longer fit their card, of which no problem says so
    fit_neither: tuple[CardRoom, ...] = ()  #: runs that fit their card with neither release
    known: frozenset[tuple[str, ...]] = frozenset()  #: keys of the worst findings of those that advisories know
    settings: tuple[str, ...] = ()  #: the changed defaults to set
    compared: int = 0  #: workloads that ran with this release and were compared with the installed one
    workloads: int = 0  #: those that either has a result of
    reason: str = ""  #: why nothing is known; empty if something is

    @property
    def against(self) -> tuple[Assessment, ...]:
        """Return the problems that speak against the release: no costs, none that a setting ends, and none that advisories
        know, which are theirs to decide."""
        return tuple(
            one
            for one in self.met
            if not one.kind.is_cost and one.problem.setting is None and one.problem.worst.key not in self.known
        )


class Upgrade(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one package."""

    package: str
    installed: str
    target: str
    judgement: UpgradeJudgement
    comparison: Comparison | None = None  #: None if nothing is stored
    stack: str = ""  #: id of the target's
    kept: tuple[Assessment, ...] = ()  #: the problems that both releases have, but for costs
    instead: str = ""  #: id of the stack to go to instead; empty if none is known, or none is needed
    instead_settings: tuple[str, ...] = ()  #: the changed defaults to set there

    @property
    def verdict(self) -> UpgradeVerdict:
        """Return the verdict on the target."""
        return self.judgement.verdict


def unknown(package: str, installed: str, target: str, reason: str) -> Upgrade:
    """Return the answer if nothing is known, with the reason."""
    judgement = UpgradeJudgement(verdict=UpgradeVerdict.UNKNOWN, reason=reason)
    return Upgrade(package=package, installed=installed, target=target, judgement=judgement)


def stays(package: str, installed: str) -> Upgrade:
    """Return the answer if the target is the installed release."""
    judgement = UpgradeJudgement(verdict=UpgradeVerdict.YES)
    return Upgrade(package=package, installed=installed, target=installed, judgement=judgement)


def judge_upgrade(comparison: Comparison, package: str, target: str, card: Card | None = None) -> Upgrade:
    """Judge an upgrade from the comparison's baseline to another stack, with the id ``target``. ``card`` overrides the cards
    that scenarios name."""
    assessor = Assessor(comparison, CardRooms(comparison, card))
    judgement = _judgement(comparison, assessor, target)
    instead = _instead(comparison, assessor, target, judgement) if judgement.verdict is UpgradeVerdict.NO else ""
    versions = {stack.id: stack.versions[package] for stack in comparison.stacks}
    return Upgrade(
        package=package,
        installed=versions[comparison.baseline],
        target=versions[target],
        judgement=judgement,
        comparison=comparison,
        stack=target,
        kept=tuple(assessor.kept(target)),
        instead=instead,
        instead_settings=_judgement(comparison, assessor, instead).settings if instead else (),
    )


def _judgement(comparison: Comparison, assessor: Assessor, target: str) -> UpgradeJudgement:
    met = tuple(assessor.met(target))
    known = frozenset(one.problem.worst.key for one in met if assessor.knowledge.of_problem(one.problem))
    unjudged = {(one.stack, one.workload) for one in comparison.not_compared if one.what == EVERYTHING}
    ran = {w: comparison.cells.stacks_of(w) for w in comparison.cells.workloads}
    either = [w for w, stacks in ran.items() if target in stacks or comparison.baseline in stacks]
    failed = {w for w, ended in comparison.ended.items() if target in ended}  # where both fail, nothing is compared
    compared = [
        w
        for w in either
        if target in ran[w] and comparison.baseline in ran[w] and w not in failed and (target, w) not in unjudged
    ]
    too_large = {run for one in met for run in one.too_large}
    lost = [room for w in compared if (target, w) not in too_large and (room := assessor.lost_room(target, w))]
    grave = [one for one in met if not one.kind.is_cost and one.problem.worst.key not in known]
    settings = tuple(dict.fromkeys(one.problem.setting.key for one in grave if one.problem.setting is not None))
    reason = _unknown(comparison, target, met, compared)
    if lost or any(one.problem.setting is None and one.kind is not ProblemKind.UNTESTABLE for one in grave):
        verdict = UpgradeVerdict.NO
    elif reason:
        verdict = UpgradeVerdict.UNKNOWN
    else:
        verdict = UpgradeVerdict.IF_SET if settings else UpgradeVerdict.YES
    return UpgradeJudgement(
        verdict=verdict,
        met=met,
        known=known,
        lost=tuple(lost),
        fit_neither=tuple(room for w in compared if (room := assessor.card_room(target, w)) and room.fits_neither),
        settings=settings,
        compared=len(compared),
        workloads=len(either),
        reason=reason if verdict is UpgradeVerdict.UNKNOWN else "",
    )


def _unknown(comparison: Comparison, target: str, met: tuple[Assessment, ...], compared: list[str]) -> str:
    """Return why a release with nothing against it is not known to be good; empty if it is."""
    if any(one.kind is ProblemKind.UNTESTABLE for one in met):
        return "it cannot be tested here"
    ours = (target, comparison.baseline)
    if missing := next((one for one in comparison.not_measured if one.stack in ours), None):
        return f"{missing.workload}: {missing.reason}"
    return "" if compared else "no workload that it ran could be compared"


def _instead(comparison: Comparison, assessor: Assessor, target: str, judgement: UpgradeJudgement) -> str:
    """Return the id of the nearest sound release to which an upgrade is advised: newer than the target, else between the
    two. If none is sound on the workloads that the target breaks, as the installed release may not be either, return the
    newest to which an upgrade is advised. Return an empty id if a problem is intermittent: then no release is known to be
    sound."""
    if any(one.problem.worst.intermittent for one in judgement.against):
        return ""
    order = [stack.id for stack in comparison.stacks if stack.id != comparison.baseline]
    at = order.index(target)
    good = [
        stack
        for stack in order
        if _judgement(comparison, assessor, stack).verdict in (UpgradeVerdict.YES, UpgradeVerdict.IF_SET)
    ]
    free = {stack for stack in good if all(stack in one.problem.free for one in judgement.against)}
    sides = [[stack for stack in side if stack in free] for side in (order[at + 1 :], order[:at][::-1])]
    workloads = {w for one in judgement.against for w in one.problem.affected} | {r.workload for r in judgement.lost}
    kind = min((one.kind for one in judgement.against), default=ProblemKind.OUT_OF_MEMORY)
    return assessor.release(kind, sides, workloads) or next(reversed(good), "")
