"""Puts a job to the advisories: which concern it, which may, and which do not. Pure.

An answer holds for what was run. A release between two of the same answer has that answer. Between two of different answers,
and beyond the newest and the oldest that were run, nothing is known. A fact that was not stated is open, and never assumed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from dsregress.advisories.advisory import Advisory, FactCondition, Remedy
from dsregress.advisories.job_facts import FACTS, OneOf, chosen_value, stand_in, values_of
from dsregress.versions.declared_requirements import releases_within

#: Packages that train by their own programs.
FRAMEWORKS = ("llamafactory", "openrlhf")


class Match(Enum):
    """The answer of one advisory for one job."""

    CONCERNED = "concerned"
    DEPENDS = "depends"  #: on what was not stated: `Matched.open` and `Matched.open_packages`
    UNKNOWN = "unknown"  #: a release or a value was not run: `Matched.not_run`
    FREE = "free"


class KnownJob(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that are known of the reader's job. A fact that is absent is not known, and never assumed."""

    versions: Mapping[str, str]  #: of the packages of its stack
    facts: Mapping[str, Any] = {}  #: fact -> value, or `OneOf`
    absent: frozenset[str] = frozenset()  #: packages that are known not to be installed
    ranges: Mapping[str, str] = {}  #: package of an unknown release -> its bounds, of which there may be none

    def changed(self, versions: Mapping[str, str] = {}, facts: Mapping[str, Any] = {}) -> KnownJob:
        """Return the job with other releases and other values of facts."""
        return KnownJob(
            versions={**self.versions, **versions},
            facts={**self.facts, **facts},
            absent=self.absent - versions.keys(),
            ranges={name: one for name, one in self.ranges.items() if name not in versions},
        )


class Matched(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one advisory, with its reason."""

    advisory: Advisory
    match: Match
    open: tuple[FactCondition, ...] = ()  #: conditions on facts that were not stated
    open_packages: tuple[str, ...] = ()  #: packages whose release was not stated
    not_run: tuple[str, ...] = ()  #: "deepspeed 0.19.9", "ZeRO stage 3": why nothing is known
    beside_affected: bool = False  #: all else holds, and each release that was not run is next to one with the problem
    remedies: tuple[Remedy, ...] = ()  #: that end it, the best first, of those that an answer tells (`remedy_choice`)


def match_advisories(advisories: Iterable[Advisory], job: KnownJob) -> tuple[Matched, ...]:
    """Return the answer of each advisory that is not withdrawn."""
    return tuple(match_advisory(one, job) for one in advisories if not one.withdrawn)


def match_advisory(advisory: Advisory, job: KnownJob) -> Matched:
    """Return the answer of one advisory for a job."""
    whole = _facts_part(advisory, job)
    if whole.free:
        return Matched(advisory=advisory, match=Match.FREE)
    ranges = [_release_part(one.package, one.affected, one.unaffected, job) for one in advisory.ranges]
    whole.add(_any_of(ranges))
    for partner in advisory.partners:
        whole.add(_release_part(partner.package, partner.affected, partner.unaffected, job))
    if whole.free:
        return Matched(advisory=advisory, match=Match.FREE)
    return Matched(
        advisory=advisory,
        match=whole.match,
        open=tuple(whole.open),
        open_packages=tuple(dict.fromkeys(whole.open_packages)),
        not_run=tuple(dict.fromkeys(whole.not_run)),
        beside_affected=whole.match is Match.UNKNOWN and not whole.is_remote,
    )


def is_newly_matched(one: Matched, before: Mapping[str, Matched]) -> bool:
    """Return True if an advisory did not concern a job ``before``, or was not known to depend on anything, and now does."""
    earlier = before[one.advisory.id]
    if one.match is Match.CONCERNED:
        return earlier.match is not Match.CONCERNED
    return earlier.match in (Match.FREE, Match.UNKNOWN) if one.match is Match.DEPENDS else earlier.match is Match.FREE


def match_facts(advisory: Advisory, job: KnownJob) -> Match:
    """Return the answer as far as the job's facts and packages give it, whatever the releases: `Match.CONCERNED` if the
    advisory is about such a job."""
    whole = _facts_part(advisory, job)
    for package in advisory.packages:
        if package not in job.versions:
            whole.add(_release_part(package, (), (), job))
    return whole.match


def known_packages(advisories: Iterable[Advisory]) -> frozenset[str]:
    """Return the packages that any advisory is about."""
    return frozenset(package for one in advisories for package in one.packages)


def known_versions(advisories: Iterable[Advisory], package: str) -> list[str]:
    """Return the releases of a package that any advisory knows, in order."""
    found = {
        version
        for one in advisories
        for each in one.ranges
        if each.package == package
        for version in (*each.affected, *each.unaffected)
    }
    return sorted(found, key=parsed)


class _Part:
    """The answer of a part of an advisory: it holds unless it is free, open or not run."""

    def __init__(self, *, free: bool = False) -> None:
        self.free = free
        self.open: list[FactCondition] = []
        self.open_packages: list[str] = []
        self.not_run: list[str] = []
        self.is_remote = False  #: a value was not run, or a release that is not next to an affected one

    @property
    def match(self) -> Match:
        if self.free:
            return Match.FREE
        if self.not_run:
            return Match.UNKNOWN
        return Match.DEPENDS if self.open or self.open_packages else Match.CONCERNED

    def add(self, other: _Part) -> None:
        """Add a part that has to hold as well."""
        self.free |= other.free
        self.open += other.open
        self.open_packages += other.open_packages
        self.not_run += other.not_run
        self.is_remote |= other.is_remote


def _any_of(parts: Sequence[_Part]) -> _Part:
    """Return the part that holds if one of these does."""
    for match in (Match.CONCERNED, Match.DEPENDS, Match.UNKNOWN):
        found = [part for part in parts if part.match is match]
        if match is Match.CONCERNED and found:
            return found[0]
        if found:
            whole = _Part()
            for part in found:
                whole.add(part)
            return whole
    return _Part(free=True)


def _release_part(package: str, affected: tuple[str, ...], unaffected: tuple[str, ...], job: KnownJob) -> _Part:
    part = _Part()
    version = job.versions.get(package)
    if version is None:
        answers = {is_affected(one, affected, unaffected) for one in _releases_left(package, affected, unaffected, job)}
        part.free = package in job.absent or _is_unused(package, job) or answers == {False}
        if not part.free and answers != {True}:
            part.open_packages.append(package)
        return part
    answer = is_affected(version, affected, unaffected)
    if answer is None:
        part.not_run.append(f"{package} {version}")
        part.is_remote = True not in _beside(version, affected, unaffected)
    part.free = answer is False
    return part


def _is_unused(package: str, job: KnownJob) -> bool:
    """Return True for a package that by the job's facts is not used, and for a framework, a program of its own, that neither
    its packages nor its facts name."""
    is_other_framework = package in FRAMEWORKS and package not in values_of(job.facts.get("framework"))
    return package not in job.ranges and (is_other_framework or job.facts.get(package) is False)


def _releases_left(package: str, affected: tuple[str, ...], unaffected: tuple[str, ...], job: KnownJob) -> list[str]:
    """Return the known releases that a job leaves of a package: none if it says nothing of it."""
    if package not in job.ranges:
        return []
    bounds = job.ranges[package]
    return [*releases_within(package, bounds), *SpecifierSet(bounds).filter((*affected, *unaffected))]


def is_affected(version: str, affected: Iterable[str], unaffected: Iterable[str]) -> bool | None:
    """Return True if a release has a problem, False if it has not, by the nearest releases that were run; None if nothing
    is known."""
    older, newer = _beside(version, tuple(affected), tuple(unaffected))
    return older if older is newer else None


@functools.cache
def parsed(version: str) -> Version:
    """Return a version that compares: hundreds are compared with thousands."""
    return Version(version)


@functools.cache
def _beside(version: str, affected: tuple[str, ...], unaffected: tuple[str, ...]) -> tuple[bool | None, bool | None]:
    """Return the answers of the nearest releases that were run, the older and the newer one, None if there is none; twice
    its own for one that was run."""
    ran = {**dict.fromkeys(map(parsed, affected), True), **dict.fromkeys(map(parsed, unaffected), False)}
    wanted = parsed(version)
    older = max((one for one in ran if one <= wanted), default=None)
    newer = min((one for one in ran if one >= wanted), default=None)
    return None if older is None else ran[older], None if newer is None else ran[newer]


def _facts_part(advisory: Advisory, job: KnownJob) -> _Part:
    """Return the part of all conditions on facts. A report asks for it a million times, so what is decided is asked no
    further."""
    whole = _Part()
    for condition in advisory.conditions:
        whole.add(_fact_part(condition, job))
        if whole.free:
            break
    return whole


def _fact_part(condition: FactCondition, job: KnownJob) -> _Part:
    part = _Part()
    if condition.fact not in job.facts:
        part.open.append(condition)
        return part
    values = values_of(chosen_value(condition.fact, job.facts, job.versions))
    answers = [condition_shows(condition, one) for one in values]
    if True not in answers:
        not_run = tuple(one for one, answer in zip(values, answers, strict=True) if answer is None)
        part.is_remote = bool(not_run)
        part.not_run += [value_text(condition.fact, OneOf(not_run))] if not_run else []
        part.free = not not_run
    elif not all(answers):
        part.open.append(condition)
    return part


def condition_shows(condition: FactCondition, value: Any) -> bool | None:
    """Return True if the problem was seen with this value of the condition's fact, False if it was looked for and not seen;
    None if nothing is known."""
    for tried in dict.fromkeys((value, stand_in(condition.fact, value))):
        if _is_among(tried, condition.shown):
            return True
        if _is_among(tried, condition.hidden):
            return False
        if _is_among(tried, condition.unknown):
            return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if condition.others:
        return True
    if condition.above is not None and is_number:
        return bool(value > condition.above)
    factor = FACTS.get(condition.fact)
    return _nearest(condition, value) if is_number and factor is not None and factor.counted else None


def _is_among(value: Any, values: Iterable[Any]) -> bool:
    return any(value == one and isinstance(value, bool) is isinstance(one, bool) for one in values)


def _nearest(condition: FactCondition, value: Any) -> bool | None:
    """Return the answer for a number by the nearest ones that were run. More than the largest is as the largest."""
    ran = {**dict.fromkeys(condition.shown, True), **dict.fromkeys(condition.hidden, False)}
    fewer = max((one for one in ran if one < value), default=None)
    more = min((one for one in ran if one > value), default=None)
    if fewer is None or (more is not None and ran[fewer] is not ran[more]):
        return None
    return ran[fewer]


def value_text(fact: str, value: Any) -> str:
    """Return a value of a fact in words: ``ZeRO stage 3``."""
    values = value.values if isinstance(value, OneOf) else (value,)
    factor = FACTS.get(fact)
    if not values:
        return f"no {factor.title if factor is not None else fact}"
    return factor.text(values) if factor is not None else f"{fact} {' or '.join(map(str, values))}"


def condition_text(condition: FactCondition) -> str:
    """Return the values that show a problem, in words."""
    if condition.text:
        return condition.text
    factor = FACTS.get(condition.fact)
    if factor is None:
        return f"{condition.fact} {' or '.join(map(str, condition.shown))}"
    return factor.text(condition.shown, condition.hidden)
