"""The remedies to name for a job: those that end a problem of it, with what they bring. Pure.

A release that ends one fault may have another one. Where that is known, the next release without it is named in its place.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum

import msgspec

from dsregress.advisories.advisory import Advisory, Remedy, Ruling
from dsregress.advisories.effects import decides, is_grave
from dsregress.advisories.job_facts import COMMON_FACTS
from dsregress.advisories.matching import (
    KnownJob,
    Match,
    Matched,
    is_newly_matched,
    known_versions,
    match_advisories,
    match_advisory,
    parsed,
)
from dsregress.versions.declared_requirements import (
    ReleaseConflict,
    ending_releases,
    new_conflicts,
    releases_within,
)


class Arising(msgspec.Struct, frozen=True, kw_only=True):
    """An advisory that comes to concern the job, or may, with a remedy of another one."""

    remedy: Remedy
    matched: Matched


#: Facts whose value is a choice of what is trained, or of what fits: nobody changes it for an upgrade if a release will do.
_OF_THE_JOB = frozenset((
    *("zero_stage", "dtype", "world_size", "gradient_accumulation_steps", "model", "model_outputs", "objective"),
    *("lora_rank", "lora", "trainer", "device", "task", "integration"),
    *("offload_optimizer", "offload_param", "gradient_checkpointing", "frozen", "torch_autocast", "evaluate", "checkpoint"),
))  # fmt: skip


def is_another_job(remedy: Remedy) -> bool:
    """Return True if a remedy changes what the job trains, or what it needs."""
    keeps_checkpointing = remedy.fact == "gradient_checkpointing" and remedy.value != "none"
    return remedy.fact in _OF_THE_JOB and not keeps_checkpointing


class _Brought(IntEnum):
    """The worst that a job gets."""

    NOTHING = 0
    MAYBE_GRAVE = 1  #: a fault that may concern it, and would be grave
    CHANGE = 2  #: a default that changed, which can be set
    FAULT = 3


def ending_remedies(one: Matched, job: KnownJob, old: KnownJob | None = None) -> tuple[Remedy, ...]:
    """Return the remedies that end a problem without another release of a package that the upgrade from ``old`` changes:
    settings, and releases of other packages."""
    moved = {name for name, version in job.versions.items() if old is not None and old.versions.get(name) != version}
    remedies = (each for each in one.advisory.remedies if each.package not in moved)
    return tuple(
        each for each in (_installable(one.advisory, each, job) for each in remedies) if _ends(one.advisory, each, job)
    )


class RemedyChoice:
    """Chooses the remedies to name for a job, by what each would bring it."""

    def __init__(self, advisories: Sequence[Advisory], job: KnownJob) -> None:
        self._advisories = advisories
        self._job = job

    @functools.cached_property
    def _before(self) -> Mapping[str, Matched]:
        return {one.advisory.id: one for one in match_advisories(self._advisories, self._job)}

    def chosen(self, one: Matched, ending: Iterable[Remedy]) -> tuple[Remedy, ...]:
        """Return the remedies to name, of those that end a problem: those that bring the job nothing first, and those that
        bring it another fault only if there are no others."""
        found: list[tuple[_Brought, Remedy]] = []
        for remedy in ending:
            best, brought = remedy, self._brought(remedy)
            for newer in _newer(self._advisories, remedy) if brought else ():
                if _ends(one.advisory, newer, self._job) and (less := self._brought(newer)) < brought:
                    best, brought = newer, less
            if not any(_is_same(best, each) for _, each in found):
                found.append((brought, best))
        is_sound = any(brought < _Brought.FAULT for brought, _ in found)
        kept = [each for each in found if not is_sound or each[0] < _Brought.FAULT]
        return tuple(remedy for _, remedy in sorted(kept, key=lambda each: each[0] >= _Brought.CHANGE))

    def advised(self, one: Matched) -> Matched:
        """Return an advisory that concerns the job with its remedies for it, whatever release they take."""
        return msgspec.structs.replace(one, remedies=self.chosen(one, ending_remedies(one, self._job)))

    def arising(self, remedies: Iterable[Remedy]) -> Iterator[Arising]:
        """Yield the advisories that come to concern the job with one of these remedies, each once; with a setting, those
        that may, too."""
        seen: set[str] = set()
        for remedy in remedies:
            for one in self._newly_matched(remedy):
                if (remedy.fact or one.match is Match.CONCERNED) and one.advisory.id not in seen:
                    seen.add(one.advisory.id)
                    yield Arising(remedy=remedy, matched=one)

    def aligned(self, found: Sequence[tuple[Matched, tuple[Remedy, ...]]]) -> list[tuple[Remedy, ...]]:
        """Return the remedies of each, with the same release of a package that all name, if the newest of them ends all."""
        remedies = [each for _, each in found]
        named = [{each.package: each for each in one if each.version} for one in remedies]
        for package in set.intersection(*map(set, named)) if len(named) > 1 else ():
            newest = max((one[package] for one in named), key=lambda each: parsed(each.version))
            if all(_ends(one.advisory, newest, self._job) for one, _ in found):
                remedies = [tuple(newest if each.package == package else each for each in one) for one in remedies]
        return remedies

    def for_all(self, found: Sequence[Matched]) -> dict[str, str]:
        """Return package -> the release that ends all of the grave faults at once that releases of it end, if different ones
        are named for them: the nearest newer one, or else the nearest older one, that brings the job no grave fault."""
        found = [one for one in found if is_grave(one.advisory)]
        together: dict[str, str] = {}
        packages = dict.fromkeys(each.package for one in found for each in one.remedies)
        for package in (one for one in packages if one in self._job.versions):
            named = [[each for each in one.remedies if each.package == package] for one in found]
            ended = [one.advisory for one, remedies in zip(found, named, strict=True) if remedies]
            if len({remedies[0].version for remedies in named if remedies}) > 1:
                releases = (
                    Remedy(text=f"use {package} {one}", package=package, version=one) for one in self._nearest(package)
                )
                fitting = (each for each in releases if all(_ends(one, each, self._job) for one in ended))
                best = next((each for each in fitting if self._brought(each) < _Brought.FAULT), None)
                together |= {package: best.version} if best is not None else {}
        return together

    def _nearest(self, package: str) -> list[str]:
        """Return the known releases of a package: newer ones than the job's, and then older ones, the nearest first."""
        known, own = known_versions(self._advisories, package), parsed(self._job.versions[package])
        return [*(one for one in known if parsed(one) > own), *(one for one in reversed(known) if parsed(one) < own)]

    def _brought(self, remedy: Remedy) -> _Brought:
        """Return the worst that a remedy brings the job."""
        new = list(self._newly_matched(remedy))
        concerned = [one.advisory for one in new if one.match is Match.CONCERNED]
        if concerned:
            return _Brought.FAULT if any(one.ruling is Ruling.FAULT for one in concerned) else _Brought.CHANGE
        return _Brought.MAYBE_GRAVE if any(_may_be_grave(one) for one in new) else _Brought.NOTHING

    def _newly_matched(self, remedy: Remedy) -> Iterator[Matched]:
        """Yield the faults that concern the job, or may, once it has a remedy, and do not yet."""
        tried = _with_remedy(self._job, remedy)
        for one in match_advisories(self._advisories, tried) if tried is not None else ():
            is_open = one.match in (Match.CONCERNED, Match.DEPENDS)
            if is_open and decides(one.advisory) and is_newly_matched(one, self._before):
                yield one


def _may_be_grave(one: Matched) -> bool:
    """Return True if a grave fault depends on what everybody knows of a job of their own: rarer jobs know their faults."""
    is_common = not one.open_packages and all(each.fact in COMMON_FACTS for each in one.open)
    return is_common and is_grave(one.advisory)


def _newer(advisories: Iterable[Advisory], remedy: Remedy) -> Iterator[Remedy]:
    """Yield the releases after that of a remedy."""
    for version in known_versions(advisories, remedy.package) if remedy.version else ():
        if parsed(version) > parsed(remedy.version):
            text = remedy.text.replace(remedy.version, version)
            yield msgspec.structs.replace(remedy, text=text, version=version)


def _installable(advisory: Advisory, remedy: Remedy, job: KnownJob) -> Remedy:
    """Return the remedy; if its release cannot be installed beside the job's others, the next one that can, if any."""
    tried = (each for each in (remedy, *_newer([advisory], remedy)) if _is_installable(each, job))
    return next(tried, remedy)


def _is_installable(remedy: Remedy, job: KnownJob) -> bool:
    versions = {remedy.package: remedy.version} if remedy.package in job.versions and remedy.version else {}
    return not new_conflicts(job.versions, job.changed(versions=versions).versions, job.ranges)


def ending_without_faults(
    advisories: Sequence[Advisory], conflicts: Iterable[ReleaseConflict], old: KnownJob, new: KnownJob
) -> dict[str, str]:
    """Return the releases that end conflicts, see `ending_releases`; in place of one by which the job would get a fault the
    next one without, if there is any that goes with the rest."""
    found = ending_releases(conflicts, old.versions, new.versions)
    for package in [name for name, release in found.items() if old.versions.get(name) != release]:
        for release in releases_within(package, f">={found[package]}"):
            tried = new.changed(versions={**found, package: release})
            is_fitting = not new_conflicts(old.versions, tried.versions, new.ranges)
            if is_fitting and not _has_new_fault(advisories, package, old, tried):
                found[package] = release
                break
    return found


def _has_new_fault(advisories: Iterable[Advisory], package: str, old: KnownJob, new: KnownJob) -> bool:
    return any(
        match_advisory(one, new).match is Match.CONCERNED and match_advisory(one, old).match is not Match.CONCERNED
        for one in advisories
        if not one.withdrawn and one.ruling is Ruling.FAULT and decides(one) and package in one.packages
    )


def _is_same(one: Remedy, other: Remedy) -> bool:
    """Return True for the same release, or the same value of a setting."""
    if one.package or other.package:
        return (one.package, one.version) == (other.package, other.version)
    return (one.fact, one.value) == (other.fact, other.value)


def _with_remedy(job: KnownJob, remedy: Remedy) -> KnownJob | None:
    """Return the job with a remedy; None if that is no release of a package that it has, and no setting."""
    if remedy.package:
        is_release = remedy.package in {*job.versions, *job.ranges} and remedy.version
        return job.changed(versions={remedy.package: remedy.version}) if is_release else None
    return job.changed(facts={remedy.fact: remedy.value}) if remedy.fact else None


def _ends(advisory: Advisory, remedy: Remedy, job: KnownJob) -> bool:
    """Return True if a remedy ends a problem of a job, and can be installed."""
    tried = _with_remedy(job, remedy)
    return tried is not None and _is_installable(remedy, job) and match_advisory(advisory, tried).match is Match.FREE
