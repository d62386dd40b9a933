"""The verdict on an upgrade: two jobs put to the same advisories. Pure.

Faults decide. A fault that a setting or a release of another package ends is a condition of the upgrade; so is a default
that changed and can be set. A leak takes memory that the job may have, so it is a condition as well. Gains, costs and
changes are named beside it, and never decide.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum

import msgspec

from dsregress.advisories.advisory import Advisory, AdvisoryKind, Remedy, Ruling
from dsregress.advisories.covered_packages import coverage, covered_packages, unlisted_releases
from dsregress.advisories.effects import decides, ends_the_job, is_cost, is_grave
from dsregress.advisories.job_facts import FACTS
from dsregress.advisories.matching import (
    KnownJob,
    Match,
    Matched,
    is_newly_matched,
    known_versions,
    match_advisories,
    parsed,
)
from dsregress.advisories.oldest_run import older_than_run
from dsregress.advisories.remedy_choice import (
    Arising,
    RemedyChoice,
    ending_remedies,
    ending_without_faults,
    is_another_job,
)
from dsregress.advisories.skipped_releases import Skipped, skipped_releases
from dsregress.advisories.usual_jobs import usually_concerns
from dsregress.versions.declared_requirements import (
    ReleaseConflict,
    conflicts_of,
    new_conflicts,
    unknown_requirements,
)


class Verdict(Enum):
    """The answer to an upgrade."""

    YES = "yes"
    IF_SET = "if set"  #: once `UpgradeAnswer.conditions` hold
    NO = "no"
    UNKNOWN = "unknown"


class SetBefore(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of an upgrade: one of the remedies of an advisory; without any, room for the memory of a leak."""

    matched: Matched
    remedies: tuple[Remedy, ...] = ()


class UpgradeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on an upgrade, with its reasons. The advisories are those of the target's job, save `gained`."""

    verdict: Verdict
    against: tuple[Matched, ...] = ()  #: faults that nothing else ends
    conflicts: tuple[ReleaseConflict, ...] = ()  #: between releases that the upgrade brings together
    #: package -> the release that ends these conflicts, or what is against it; empty unless all can be ended
    ending: Mapping[str, str] = {}
    kept_conflicts: tuple[ReleaseConflict, ...] = ()  #: of both jobs
    only_with: tuple[str, ...] = ()  #: packages that change together with it, and that have to
    unknown_requirements: tuple[str, ...] = ()  #: releases of which it is not known what they require of the others
    conditions: tuple[SetBefore, ...] = ()
    arising: tuple[Arising, ...] = ()
    instead: Mapping[str, str] = {}  #: package -> the nearest release without those against it; empty if none is known
    instead_conditions: tuple[SetBefore, ...] = ()  #: of that release, or of those with which `others` stay
    staying: Mapping[
        str, str
    ] = {}  #: package -> the release that it keeps, so that the others can go: without `instead`
    depends: tuple[Matched, ...] = ()  #: faults and changes that concern it, or not, by what was not stated
    hinges: tuple[Matched, ...] = ()  #: of `depends`, those of a fact no value of which is free of them
    usual: tuple[Matched, ...] = ()  #: of `depends`, those that most jobs have, and that no remedy ends
    unknown: tuple[
        Matched, ...
    ] = ()  #: faults of which a release or a value was not run, and that no other fact decides
    not_run: tuple[
        Matched, ...
    ] = ()  #: these, and those that facts decide that were not stated: the verdict rests on none
    gained: tuple[Matched, ...] = ()  #: concern the old job alone, or may
    kept: tuple[Matched, ...] = ()  #: faults of both, which no remedy ends
    kept_open: tuple[Matched, ...] = ()  #: that both jobs have, or not, by what was not stated: the grave ones
    changes: tuple[Matched, ...] = ()
    costs: tuple[Matched, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    uncovered: tuple[str, ...] = ()  #: packages that change, and that no advisory is about for such a job
    unlisted: tuple[str, ...] = ()  #: releases that it goes to or keeps, and that are not known to be published
    older_than_run: tuple[str, ...] = ()  #: releases that the job keeps, beside which nothing was run: "torch 2.1.2"
    ungrounded: tuple[str, ...] = ()  #: packages that change, all that is known of which depends on what was not stated


def judge_upgrade(
    advisories: Sequence[Advisory], old: KnownJob, new: KnownJob, together: Collection[str] = ()
) -> UpgradeAnswer:
    """Return the verdict on going from a job to the same one with other releases. What packages that change ``together``
    require of each other is left to the verdict on all of them."""
    after = match_advisories(advisories, new)
    before = _leaving_out(match_advisories(advisories, old), new.versions.keys() - old.versions.keys())
    answer = _judged(advisories, old, new, before, after, together)
    is_ruled_out = answer.verdict is Verdict.NO or bool(answer.usual)
    instead, conditions = _instead(advisories, old, new, answer, before) if is_ruled_out else ({}, ())
    ending = ending_without_faults(advisories, answer.conflicts, old, new)
    if is_ruled_out and not instead and not ending:
        ending = _lifted(advisories, old, new, answer, before)
    staying: dict[str, str] = {}
    if is_ruled_out and not instead and all(old.versions.get(name) == one for name, one in ending.items()):
        staying, conditions = _staying(advisories, old, new, answer, before)
    if conditions:
        conditions = _chosen_conditions(
            RemedyChoice(advisories, new.changed(versions={**instead, **staying})), conditions
        )
    skipped = tuple(skipped_releases(advisories, old, new, (*before, *after)))
    return msgspec.structs.replace(
        _advised(advisories, new, answer),
        instead=instead,
        instead_conditions=conditions,
        staying=staying,
        ending=ending,
        skipped=skipped,
    )


def judge_release(advisories: Sequence[Advisory], job: KnownJob, package: str) -> UpgradeAnswer:
    """Return the verdict on the release that a job has of a package, compared with none: what that package's releases decide
    is new, and what others decide the job has anyway."""
    others = {name: version for name, version in job.versions.items() if name != package}
    old = msgspec.structs.replace(job, versions=others)
    matched = match_advisories(advisories, job)
    answer = _advised(advisories, job, _judged(advisories, old, job, _leaving_out(matched, (package,)), matched))
    ending = ending_without_faults(advisories, answer.conflicts, job, job)
    return msgspec.structs.replace(answer, ending=ending)


def _leaving_out(matched: Iterable[Matched], packages: Collection[str]) -> list[Matched]:
    """Return the answers for a job that has none of these packages: what their releases decide is new beside it."""
    return [
        one if {*packages}.isdisjoint(one.advisory.packages) else Matched(advisory=one.advisory, match=Match.FREE)
        for one in matched
    ]


def _advised(advisories: Sequence[Advisory], job: KnownJob, answer: UpgradeAnswer) -> UpgradeAnswer:
    """Return the answer with the remedies to name for its reasons, and what comes with them."""
    choice = RemedyChoice(advisories, job)
    conditions = _chosen_conditions(choice, answer.conditions)
    return msgspec.structs.replace(
        answer,
        against=tuple(map(choice.advised, answer.against)),
        usual=tuple(map(choice.advised, answer.usual)),
        kept=tuple(map(choice.advised, answer.kept)),
        conditions=conditions,
        arising=tuple(choice.arising(remedy for one in conditions for remedy in one.remedies)),
    )


def _chosen_conditions(choice: RemedyChoice, conditions: Iterable[SetBefore]) -> tuple[SetBefore, ...]:
    chosen = [(choice.advised(one.matched), choice.chosen(one.matched, one.remedies)) for one in conditions]
    ended = [one for one in chosen if one[1]]
    remedies = {one.advisory.id: each for (one, _), each in zip(ended, choice.aligned(ended), strict=True)}
    return tuple(SetBefore(matched=one, remedies=remedies.get(one.advisory.id, ())) for one, _ in chosen)


def _judged(
    advisories: Sequence[Advisory],
    old: KnownJob,
    new: KnownJob,
    matched: Iterable[Matched],
    after: Sequence[Matched],
    together: Collection[str] = (),
) -> UpgradeAnswer:
    """Return the verdict without a release to go to instead, and without those to skip. ``matched`` are the answers for the
    old job, ``after`` those for the new one. What was not run leaves it open beside a release that has the fault, and beyond
    all that were run. A release on the far side of one without it, and a value that was not tried, do not decide.
    """
    before = {one.advisory.id: one for one in matched}
    concerned = [one for one in after if one.match is Match.CONCERNED]
    against, conditions, kept = _sorted_faults(concerned, before, old, new)
    usual, more = _usual_faults(after, before, old, new)
    conditions += more
    named = {one.advisory.id for one in (*against, *kept, *(each.matched for each in conditions))}
    others = [one for one in concerned if one.advisory.id not in named and is_newly_matched(one, before)]
    open_ones = [one for one in after if one.match in (Match.DEPENDS, Match.UNKNOWN) and is_newly_matched(one, before)]
    changed = [name for name, version in new.versions.items() if old.versions.get(name) != version]
    basis = _basis(advisories, new, changed)
    is_beyond = _is_beyond(advisories, old, new)
    unknown = [one for one in after if _leaves_open(one, before, is_beyond=is_beyond)]
    depends = tuple(one for one in open_ones if _is_question(one) and one.advisory.id not in named)
    hinges = tuple(_hinges(depends, new))
    arising = new_conflicts(old.versions, new.versions, new.ranges)
    conflicts = [one for one in arising if not {one.package, one.other} <= {*together}]
    return UpgradeAnswer(
        verdict=_reached_verdict(
            [*conflicts, *against],
            conditions,
            is_known=not (hinges or usual or any(is_beyond or one.beside_affected for one in unknown))
            and basis.is_of(changed),
        ),
        against=tuple(against),
        conflicts=tuple(conflicts),
        only_with=_only_with((one for one in arising if one not in conflicts), changed),
        kept_conflicts=tuple(one for one in conflicts_of(new.versions, new.ranges) if one not in arising),
        unknown_requirements=unknown_requirements(new.versions) if changed else (),
        conditions=tuple(conditions),
        depends=depends,
        hinges=hinges,
        usual=usual,
        unknown=tuple(unknown),
        not_run=tuple(one for one in after if decides(one.advisory) and _is_newly_unknown(one, before)),
        gained=tuple(_gained(before, after)),
        kept=tuple(kept),
        kept_open=tuple(one for one in after if _is_open_in_both(one, before)),
        changes=tuple(one for one in others if not is_cost(one.advisory)),
        costs=tuple(one for one in others if is_cost(one.advisory)),
        uncovered=basis.uncovered,
        unlisted=basis.unlisted,
        older_than_run=tuple(older_than_run(new.versions)) if changed else (),
        ungrounded=basis.ungrounded,
    )


class _Basis(msgspec.Struct, frozen=True, kw_only=True):
    """Gaps of an answer: see `UpgradeAnswer`."""

    uncovered: tuple[str, ...]
    unlisted: tuple[str, ...]
    ungrounded: tuple[str, ...]

    def is_of(self, changed: Sequence[str]) -> bool:
        """Return True if each release is known, and something of the packages that change."""
        return not self.unlisted and (not changed or self.uncovered != tuple(changed))


def _basis(advisories: Sequence[Advisory], new: KnownJob, changed: Sequence[str]) -> _Basis:
    covers = {name: coverage(advisories, new, name) for name in changed}
    covered = sorted(covered_packages(advisories, new) if changed else (), key=lambda name: name not in changed)
    return _Basis(
        uncovered=tuple(name for name in changed if covers[name] is Match.FREE),
        unlisted=tuple(unlisted_releases(advisories, new.versions, covered)),
        ungrounded=tuple(name for name in changed if covers[name] is Match.DEPENDS),
    )


def _leaves_open(one: Matched, before: Mapping[str, Matched], *, is_beyond: bool) -> bool:
    """Return True for a fault of which it is newly unknown whether the new job has it: nothing but what was not run decides,
    unless the release is beyond all that were run."""
    is_new = is_newly_matched(one, before) or (one.beside_affected and _is_newly_unknown(one, before))
    is_decided_by_runs = is_beyond or not (one.open or one.open_packages)
    return one.match is Match.UNKNOWN and is_new and decides(one.advisory) and is_decided_by_runs


def _only_with(conflicts: Iterable[ReleaseConflict], changed: Collection[str]) -> tuple[str, ...]:
    """Return the packages that have to change too, so that there are none of these conflicts."""
    return tuple(sorted({name for one in conflicts for name in (one.package, one.other)} - {*changed}))


def _sorted_faults(
    concerned: Iterable[Matched], before: Mapping[str, Matched], old: KnownJob, new: KnownJob
) -> tuple[list[Matched], list[SetBefore], list[Matched]]:
    """Return those that are against an upgrade, its conditions, and those of both jobs that no remedy ends."""
    against: list[Matched] = []
    conditions: list[SetBefore] = []
    kept: list[Matched] = []
    for one in (each for each in concerned if decides(each.advisory)):
        is_new = before[one.advisory.id].match is not Match.CONCERNED
        remedies = tuple(each for each in ending_remedies(one, new, old) if not is_another_job(each))
        is_leak = one.advisory.kind is AdvisoryKind.LEAKS
        if (remedies and (is_new or ends_the_job(one.advisory))) or (is_leak and is_new):
            conditions.append(SetBefore(matched=one, remedies=remedies))
        elif is_new and one.advisory.kind is not AdvisoryKind.DEFAULT_CHANGED:
            against.append(one)
        elif one.advisory.ruling is Ruling.FAULT:
            kept.append(one)
    return against, conditions, kept


def _usual_faults(
    after: Iterable[Matched], before: Mapping[str, Matched], old: KnownJob, new: KnownJob
) -> tuple[tuple[Matched, ...], list[SetBefore]]:
    """Return the faults that such a job usually comes to have: those that nothing ends, and as conditions the others."""
    usual: list[Matched] = []
    conditions: list[SetBefore] = []
    for one in after:
        if is_newly_matched(one, before) and usually_concerns(one, new):
            remedies = tuple(each for each in ending_remedies(one, new, old) if not is_another_job(each))
            if remedies:
                conditions.append(SetBefore(matched=one, remedies=remedies))
            else:
                usual.append(one)
    return tuple(usual), conditions


def _hinges(depends: Sequence[Matched], job: KnownJob) -> Iterator[Matched]:
    """Yield the faults that one unstated fact decides of which no value is known to be free of all, and several have."""
    deciding = [one for one in depends if decides(one.advisory) and len(one.open) == 1 and not one.open_packages]
    for fact in dict.fromkeys(one.open[0].fact for one in deciding):
        found = [one for one in deciding if one.open[0].fact == fact]
        jobs = [job.changed(facts={fact: value}) for value in FACTS[fact].values]
        about = [one.advisory for one in found]
        answers = [{one.match for one in match_advisories(about, tried)} for tried in jobs]
        is_free = any(one == {Match.FREE} for one in answers)
        if not is_free and sum(Match.CONCERNED in one for one in answers) > 1:
            yield from found


def _is_beyond(advisories: Sequence[Advisory], old: KnownJob, new: KnownJob) -> bool:
    """Return True if the upgrade goes to a release that is newer than all that were run."""
    for package, version in new.versions.items():
        known = known_versions(advisories, package)
        if old.versions.get(package) != version and known and parsed(version) > parsed(known[-1]):
            return True
    return False


def _reached_verdict(
    against: Sequence[Matched | ReleaseConflict], conditions: Sequence[SetBefore], *, is_known: bool
) -> Verdict:
    if against:
        return Verdict.NO
    if not is_known:
        return Verdict.UNKNOWN
    return Verdict.IF_SET if conditions else Verdict.YES


def _is_open_in_both(one: Matched, before: Mapping[str, Matched]) -> bool:
    """Return True if it depends on what was not stated whether both jobs end, or train or save what is wrong."""
    both = (one.match, before[one.advisory.id].match)
    return both == (Match.DEPENDS, Match.DEPENDS) and decides(one.advisory) and is_grave(one.advisory)


def _is_newly_unknown(one: Matched, before: Mapping[str, Matched]) -> bool:
    """Return True if it is not known of the new job, and not for the reasons for which it is not known of the old one."""
    return one.match is Match.UNKNOWN and before[one.advisory.id].not_run != one.not_run


def _is_question(one: Matched) -> bool:
    return one.match is Match.DEPENDS and not is_cost(one.advisory)


def _gained(before: Mapping[str, Matched], after: Iterable[Matched]) -> Iterator[Matched]:
    """Yield the answers for the old job of those that no longer concern the new one: faults that end, improvements that
    begin."""
    for one in after:
        earlier = before[one.advisory.id]
        ends = one.match is Match.FREE and earlier.match in (Match.CONCERNED, Match.DEPENDS)
        begins = one.match is Match.CONCERNED and earlier.match is Match.FREE
        if begins and one.advisory.ruling is Ruling.IMPROVEMENT:
            yield one
        elif ends and one.advisory.ruling is Ruling.FAULT:
            yield earlier


def _partner_versions(against: Sequence[Matched], package: str) -> Iterator[str]:
    """Yield the releases of a package beside which the faults were looked for."""
    for partner in (each for one in against for each in one.advisory.partners if each.package == package):
        yield from (*partner.affected, *partner.unaffected)


def _changed_packages(old: KnownJob, new: KnownJob, answer: UpgradeAnswer) -> list[str]:
    """Return the packages that the upgrade changes and that those against it are about."""
    about = {name for one in (*answer.against, *answer.usual) for name in one.advisory.packages}
    about |= {name for one in answer.conflicts for name in (one.package, one.other)}
    return [name for name, version in new.versions.items() if name in about and old.versions.get(name) != version]


def _instead(
    advisories: Sequence[Advisory], old: KnownJob, new: KnownJob, answer: UpgradeAnswer, before: Sequence[Matched]
) -> tuple[dict[str, str], tuple[SetBefore, ...]]:
    """Return the nearest release to which an upgrade is advised, with its conditions: newer ones first, then those between
    the two, of either those without a condition. It is known to be free of what is against the upgrade. ``before`` are the
    answers for the old job."""
    reasons = (*answer.against, *answer.usual)
    against = [one.advisory for one in reasons]
    for package in _changed_packages(old, new, answer):
        target = parsed(new.versions[package])
        start = parsed(old.versions[package]) if package in old.versions else target
        known = sorted({*known_versions(advisories, package), *_partner_versions(reasons, package)}, key=parsed)
        newer = [one for one in known if parsed(one) > target and parsed(one) != start]
        between = [one for one in known if start < parsed(one) < target]
        for side in (newer, between[::-1]):
            answers: dict[Verdict, tuple[str, UpgradeAnswer]] = {}
            for version in side:
                job = new.changed(versions={package: version})
                if any(one.match is not Match.FREE for one in match_advisories(against, job)):
                    continue
                tried = _judged(advisories, old, job, before, match_advisories(advisories, job))
                if not any(ends_the_job(one.advisory) for one in tried.kept):
                    answers.setdefault(tried.verdict, (version, tried))
            for verdict in (Verdict.YES, Verdict.IF_SET):
                if verdict in answers:
                    version, tried = answers[verdict]
                    return {package: version}, tried.conditions
    return {}, ()


def _lifted(
    advisories: Sequence[Advisory], old: KnownJob, new: KnownJob, answer: UpgradeAnswer, before: Sequence[Matched]
) -> dict[str, str]:
    """Return package -> release to take as well: a newer release of a package that stays, which ends what is against the
    upgrade, with what that release requires of the others; empty if there is none."""
    remedies = (each for one in (*answer.against, *answer.usual) for each in one.advisory.remedies if each.version)
    for one in remedies:
        own = new.versions.get(one.package)
        if own is None or own != old.versions.get(one.package) or parsed(one.version) < parsed(own):
            continue
        job = new.changed(versions={one.package: one.version})
        found = ending_without_faults(advisories, new_conflicts(old.versions, job.versions, job.ranges), old, job)
        job = job.changed(versions=found)
        if not new_conflicts(old.versions, job.versions, job.ranges):
            tried = _judged(advisories, old, job, before, match_advisories(advisories, job))
            if tried.verdict is Verdict.YES:
                return {one.package: one.version, **found}
    return {}


def _staying(
    advisories: Sequence[Advisory], old: KnownJob, new: KnownJob, answer: UpgradeAnswer, before: Sequence[Matched]
) -> tuple[dict[str, str], tuple[SetBefore, ...]]:
    """Return package -> the release that it keeps, so that all others that change can go, with the conditions of that; one
    package if that is enough, else all of which something is against the upgrade. Empty if nothing is left that changes."""
    blamed = [name for name in _changed_packages(old, new, answer) if name in old.versions]
    changing = [name for name, version in new.versions.items() if old.versions.get(name) != version]
    for names in [*([one] for one in blamed), blamed] if len(blamed) > 1 else [blamed]:
        kept = {name: old.versions[name] for name in names}
        if not kept or len(kept) == len(changing):
            continue
        job = new.changed(versions=kept)
        tried = _judged(advisories, old, job, before, match_advisories(advisories, job))
        if tried.verdict in (Verdict.YES, Verdict.IF_SET):
            return kept, tried.conditions
    return {}, ()
