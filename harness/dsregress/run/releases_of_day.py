"""The releases of packages on the day of a project's last commit, or of the releases that are compared: the likeliest to go
with a program that pins none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from packaging.version import Version

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.envs.repository import Repository
from dsregress.errors import HarnessError
from dsregress.model import AXES, NotInstalled, Stack
from dsregress.run.project_requirements import AddressedRequirement
from dsregress.run.stack_locks import newest_beside
from dsregress.versions.releases import sorted_versions

#: ``github.com/owner/name@019fc6dbaa03b888f9d5c1845f0f690da8ed310c``
_COMMIT = re.compile(r"@([0-9a-f]{7,40})$")


class OfCommit(NamedTuple):
    """The release that is nearest to a commit of a package, as far as it is known, and a day not before that commit's."""

    release: str
    day: str


def day_of_last_commit(folder: Path, installer: Installer) -> str:
    """Return the day of the last commit that changed code in the repository that ``folder`` lies in, ``2025-02-20``; empty
    without one. A commit of workflows or texts alone says nothing of the packages that the code goes with."""
    repository = Repository(str(folder), cache=folder, environment=installer.environment)
    try:
        repository.open()
        return repository.day_of_code()
    except HarnessError:
        return ""


def releases_of_commits(addressed: Mapping[str, AddressedRequirement], installer: Installer) -> dict[str, OfCommit]:
    """Return, by package, the newest release of the day on which a project began to take that commit of it, for addresses
    that name a commit: what it has was written before."""
    found: dict[str, OfCommit] = {}
    for name, one in addressed.items():
        named = _COMMIT.search(one.address)
        if named is None:
            continue
        repository = Repository(str(one.path.parent), cache=one.path.parent, environment=installer.environment)
        try:
            repository.open()
            day = repository.first_day_of(named[1], one.path.name)
        except HarnessError:
            continue
        if day and (release := releases_of_day(day, [name], installer).get(name)) is not None:
            found[name] = OfCommit(release, day)
    return found


def newest_of(releases: Mapping[str, Iterable[str]], installer: Installer) -> tuple[str, str]:
    """Return the day on which the newest of these releases was uploaded, and its name, ``deepspeed 0.16.4``; empty texts
    if no index says it."""
    found = ("", "")
    for package, versions in releases.items():
        for version in versions:
            try:
                found = max(found, (installer.upload_day(package, version), f"{package} {version}"))
            except HarnessError:
                continue
    return found if found[0] else ("", "")


def releases_of_day(day: str, packages: Iterable[str], installer: Installer) -> dict[str, str]:
    """Return, by package, the newest final release that the indexes had on that day, as far as they had one."""
    dated = installer.as_of_day(day)
    found: dict[str, str] = {}
    for package in packages:
        try:
            listed = sorted_versions(dated.published(package))
        except HarnessError:
            continue
        final = [one for one in listed if not Version(one).is_prerelease]
        found |= {package: final[-1]} if final else {}
    return found


def releases_that_go_together(
    found: Mapping[str, str], base: Stack, settings: Settings, installer: Installer
) -> dict[str, str]:
    """Return releases of one day, with older ones of the packages that were added to a stack where those of the day exclude
    each other. Without any of the added ones if no older ones go together either: they are chosen beside the others."""
    of_stack = {name: release for name, release in found.items() if name in AXES}
    limits = {name: f"<={release}" for name, release in found.items() if name not in AXES}
    if not limits:
        return of_stack
    others = {name: release for name, release in base.versions.items() if name not in limits}
    stack = msgspec.structs.replace(base, versions={**others, **of_stack})
    older = newest_beside(stack, limits, settings, installer)
    return of_stack if isinstance(older, NotInstalled) else {**of_stack, **older}
