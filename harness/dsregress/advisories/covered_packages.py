"""The packages of a job that advisories are about, and the releases of them of which nothing can be known. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.job_facts import COMMON_FACTS
from dsregress.advisories.matching import KnownJob, Match, known_versions, match_facts, parsed
from dsregress.versions.declared_requirements import committed_releases
from dsregress.versions.yanked import yanked_releases


def coverage(advisories: Sequence[Advisory], job: KnownJob, package: str) -> Match:
    """Return `Match.CONCERNED` if an advisory is about the package in such a job, `Match.DEPENDS` if that depends on what
    was not stated or not run, or if it is about every job, else `Match.FREE`: also of what is about rare jobs alone, of
    which this one states nothing."""
    about = (one for one in advisories if not one.withdrawn and package in one.packages)
    found = {_about_such_a_job(one, job) for one in about} - {Match.FREE}
    return Match.CONCERNED if Match.CONCERNED in found else Match.DEPENDS if found else Match.FREE


def _about_such_a_job(advisory: Advisory, job: KnownJob) -> Match:
    if not advisory.conditions:
        return Match.DEPENDS
    is_rare = not any(one.fact in COMMON_FACTS or one.fact in job.facts for one in advisory.conditions)
    return Match.FREE if is_rare else match_facts(advisory, job)


def covered_packages(advisories: Sequence[Advisory], job: KnownJob) -> list[str]:
    """Return the packages that a job uses and that advisories are about."""
    used = [name for name in job.versions if job.facts.get(name) is not False]
    return [name for name in used if coverage(advisories, job, name) is not Match.FREE]


def unlisted_releases(
    advisories: Sequence[Advisory], versions: Mapping[str, str], packages: Iterable[str]
) -> Iterator[str]:
    """Yield ``deepspeed 0.16.80`` for each final release of the packages that is not among those that are known, published
    or run, be it newer than all of them or between them. Those beside it say nothing of it."""
    for name in packages:
        listed = {parsed(one) for one in (*committed_releases(name), *yanked_releases().get(name, ()))}
        release = parsed(versions[name])
        if not listed or release.is_prerelease or release < min(listed) or parsed(release.base_version) in listed:
            continue
        if release not in map(parsed, known_versions(advisories, name)):
            yield f"{name} {versions[name]}"
