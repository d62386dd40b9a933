"""The audit of a job: its advisories, in the order in which a reader needs them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from dsregress.advisories.advisory import Advisory, AdvisoryKind, FactCondition, Ruling
from dsregress.advisories.covered_packages import covered_packages, unlisted_releases
from dsregress.advisories.effects import decides, is_cost
from dsregress.advisories.job_facts import COMMON_FACTS, Conflict, Fact
from dsregress.advisories.matching import KnownJob, Match, Matched, condition_text, match_advisories, match_facts
from dsregress.advisories.remedy_choice import Arising, RemedyChoice, ending_without_faults
from dsregress.advisories.usual_jobs import usually_concerns
from dsregress.versions.declared_requirements import ReleaseConflict, conflicts_of

_KINDS = tuple(AdvisoryKind)


class StatedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job, with the places that state it."""

    versions: Mapping[str, str]
    facts: Mapping[str, Fact]
    conflicts: tuple[Conflict, ...] = ()
    absent: frozenset[str] = frozenset()
    ranges: Mapping[str, str] = {}

    @property
    def job(self) -> KnownJob:
        """Return the job that is put to the advisories."""
        return KnownJob(
            versions=self.versions,
            facts={name: fact.value for name, fact in self.facts.items()},
            absent=self.absent,
            ranges=self.ranges,
        )

    def going_to(self, versions: Mapping[str, str]) -> StatedJob:
        """Return the job with other releases."""
        new = self.job.changed(versions=versions)
        return msgspec.structs.replace(self, versions=new.versions, absent=new.absent, ranges=new.ranges)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Advisories that depend on the same facts and releases, which were not stated."""

    conditions: tuple[FactCondition, ...]
    packages: tuple[str, ...]
    matched: tuple[Matched, ...]

    @property
    def is_common(self) -> bool:
        """True if everybody can answer it of a job of their own."""
        return not self.packages and all(one.fact in COMMON_FACTS for one in self.conditions)


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The advisories of a job."""

    total: int  #: advisories that were put to it
    concerned: tuple[Matched, ...]  #: faults, and defaults that changed
    #: package -> release that ends several of these at once, for which different ones are named
    for_all: Mapping[str, str]
    arising: tuple[Arising, ...]  #: would concern the job with a remedy of these
    notes: tuple[Matched, ...]  #: concern it, and are neither wrong nor a cost
    costs: tuple[Matched, ...]
    questions: tuple[Question, ...]
    usual: tuple[Matched, ...]  #: concern most such jobs, by what was not stated, and are no `questions`
    unknown: tuple[Matched, ...]
    unrun_releases: tuple[Matched, ...]  #: of `unknown`, those that lack nothing but a release that was run
    free: int
    ignored: tuple[str, ...] = ()  #: ids that concern it and are left out
    unlisted: tuple[str, ...] = ()  #: releases that it has, and that are not known to be published
    conflicts: tuple[ReleaseConflict, ...] = ()  #: between releases that it has
    ending: Mapping[str, str] = {}  #: package -> the release that ends them; empty unless all can be ended

    @property
    def is_at_fault(self) -> bool:
        """True if an advisory concerns the job, or if releases that it has do not run together."""
        return bool(self.concerned) or not all(one.declared for one in self.conflicts)


def audit_job(advisories: Sequence[Advisory], job: KnownJob, ignored: Collection[str] = ()) -> Audit:
    """Return the advisories of a job; those that are ``ignored``, by their ids, apart."""
    matched = sorted(match_advisories(advisories, job), key=_gravity)
    shown = [one for one in matched if one.advisory.id not in ignored]
    concerned = [one for one in shown if one.match is Match.CONCERNED]
    choice = RemedyChoice(advisories, job)
    told = tuple(choice.advised(one) for one in concerned if decides(one.advisory))
    depending = [one for one in shown if one.match is Match.DEPENDS and decides(one.advisory)]
    usual = [one for one in depending if usually_concerns(one, job)]
    unknown = tuple(one for one in shown if one.match is Match.UNKNOWN and decides(one.advisory))
    arising = choice.arising(remedy for one in told for remedy in one.remedies)
    others = [one for one in concerned if not decides(one.advisory)]
    return Audit(
        total=len(matched),
        concerned=told,
        for_all=choice.for_all(told),
        arising=tuple(one for one in arising if one.matched.match is Match.CONCERNED),
        notes=tuple(one for one in others if not is_cost(one.advisory)),
        costs=tuple(one for one in others if is_cost(one.advisory)),
        questions=asked(one for one in depending if one not in usual),
        usual=tuple(map(choice.advised, usual)),
        unknown=unknown,
        unrun_releases=tuple(one for one in unknown if _has_all_facts(one.advisory, job)),
        free=sum(one.match is Match.FREE for one in shown),
        ignored=tuple(one.advisory.id for one in matched if one.advisory.id in ignored and one.match is not Match.FREE),
        unlisted=tuple(unlisted_releases(advisories, job.versions, covered_packages(advisories, job))),
        conflicts=(conflicts := conflicts_of(job.versions, job.ranges)),
        ending=ending_without_faults(advisories, conflicts, job, job),
    )


def _has_all_facts(advisory: Advisory, job: KnownJob) -> bool:
    return bool(advisory.conditions) and match_facts(advisory, job) is Match.CONCERNED


def faults_of_job(advisories: Sequence[Advisory], job: KnownJob) -> tuple[Matched, ...]:
    """Return the faults of a job as it is, with the remedies to name."""
    return tuple(one for one in audit_job(advisories, job).concerned if one.advisory.ruling is Ruling.FAULT)


def _gravity(one: Matched) -> tuple[bool, int, str]:
    return one.advisory.ruling is not Ruling.FAULT, _KINDS.index(one.advisory.kind), one.advisory.id


def asked(depending: Iterable[Matched]) -> tuple[Question, ...]:
    """Return the questions that these advisories depend on, the one that decides most of them first."""
    groups: dict[tuple[str, ...], list[Matched]] = {}
    for one in depending:
        key = (*sorted(map(condition_text, one.open)), *sorted(one.open_packages))
        groups.setdefault(key, []).append(one)
    questions = [
        Question(conditions=found[0].open, packages=found[0].open_packages, matched=tuple(found))
        for found in groups.values()
    ]
    return tuple(sorted(questions, key=_rarity))


def _rarity(question: Question) -> tuple[bool, int, int, int]:
    facts = [COMMON_FACTS.index(one.fact) for one in question.conditions if one.fact in COMMON_FACTS]
    count = len(question.conditions) + len(question.packages)
    return not question.is_common, count, -len(question.matched), min(facts, default=len(COMMON_FACTS))
