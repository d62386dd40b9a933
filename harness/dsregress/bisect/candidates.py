"""Versions between two ends: the published releases of a package, or the commits of its repository."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from packaging.version import Version

from dsregress.bisect.plan import Candidate
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.envs.repository import Commit, Repository
from dsregress.errors import UsageError, no_such
from dsregress.model import AXES, Stack, stack_label
from dsregress.run import pipeline
from dsregress.run.commit_builds import source_of_commit
from dsregress.run.pipeline import Choice
from dsregress.versions import commits as naming
from dsregress.versions import releases
from dsregress.versions.stack_plans import NEWEST_THAT_FITS, Spec, resolve, spelled_package


def one_release(package: str, text: str, installer: Installer) -> str:
    """Return the one release that ``text`` matches. Raise UsageError if it matches none or several, EnvironmentUnavailable
    if no index answers and the release is not known offline."""
    found = resolve(package, text, installer.published, as_of=installer.as_of)
    if len(found) != 1:
        raise UsageError(f"{text} matches {len(found)} releases", where=package, hint="name exactly one")
    return found[0]


def release_order(release: str) -> Version:
    """Return the sort key of a release, the oldest first."""
    return Version(release)


def released(settings: Settings, installer: Installer, package: str, first: str, last: str) -> tuple[Candidate, ...]:
    """Return every final release from ``first`` to ``last``, which are releases themselves. Raise UsageError."""
    known = () if installer.as_of else releases.known_releases(package)
    if first not in known or last not in known:
        known = releases.sorted_versions((*known, *installer.published(package)))
    low, high = Version(first), Version(last)
    names = [
        name
        for name in releases.sorted_versions(known)
        if low <= Version(name) <= high and (name in (first, last) or not Version(name).is_prerelease)
    ]
    choice = Choice(versions={package: ",".join(names)}, baseline=f"{package}=={first}")
    stacks = pipeline.plan_stacks(settings, choice, installer).stacks
    return tuple(Candidate(name=stack.versions[package], stack=stack) for stack in stacks)


def with_fixed(
    settings: Settings,
    package: str,
    fixed: dict[str, str],
    named: str | None,
    installer: Installer,
    left_out: Collection[str] = (),
) -> Settings:
    """Return settings whose stack has the ``fixed`` versions around the package that is searched, and none of the packages
    that are ``left_out``. Raise UsageError, EnvironmentUnavailable."""
    if package in fixed:
        raise UsageError(
            f"{package} is the package being searched",
            where=f"--{package}" if package in AXES else "--with",
            hint="give its versions with --good and --bad",
        )
    stack: dict[str, Spec] = dict(settings.stack)
    if named is not None:
        if named not in settings.stacks:
            raise no_such("stack", named, settings.stacks, "[tool.dsregress.stacks]")
        stack.update(settings.stacks[named])
    stack = {name: spec for name, spec in stack.items() if name not in left_out}
    added = {name: spec for name, spec in fixed.items() if spec == NEWEST_THAT_FITS}
    for name, spec in fixed.items():
        if name in added:
            continue
        name = spelled_package(name, stack)
        version = one_release(name, spec, installer)
        # The framework under test is the package with a list.
        stack[name] = version if isinstance(settings.stack.get(name, ""), str) else (version,)
    settings = msgspec.structs.replace(settings, stack=stack)
    if not added:
        return settings
    newest = pipeline.plan_stacks(settings, Choice(versions=added), installer).baseline.versions
    return msgspec.structs.replace(settings, stack={**stack, **{name: newest[name] for name in added}})


def committed(repository: Repository, package: str, old: Commit, new: Commit, base: Stack) -> tuple[Candidate, ...]:
    """Return every commit from ``old`` to ``new``, both included, in stacks that otherwise are ``base``, a release's
    stack."""
    release = _release_at(repository, old) or base.versions[package]
    return tuple(one_commit(repository, package, commit, release, base) for commit in repository.between(old, new))


def base_stack(repository: Repository, package: str, commit: Commit, settings: Settings, installer: Installer) -> Stack:
    """Return the stack of the newest release at or before a commit; of the configured baseline if no release is tagged."""
    name = one_release(package, _release_at(repository, commit) or settings.baseline, installer)
    return pipeline.plan_stacks(
        settings, Choice(versions={package: name}, baseline=f"{package}=={name}"), installer
    ).stacks[-1]


def _release_at(repository: Repository, commit: Commit) -> str:
    tag = repository.newest_tag(commit)
    return tag if releases.parsed_version(tag) is not None else ""


def one_commit(repository: Repository, package: str, commit: Commit, release: str, base: Stack) -> Candidate:
    """Return a commit as a version: named after the ``release`` before it, with everything else that the lock of ``base``
    pins."""
    label = stack_label(base.named, commit.short)
    stack = naming.stack_of(base, package, naming.version_of(release, commit.sha), label=label)
    return Candidate(
        name=commit.short,
        stack=stack,
        about=f"{commit.date[:10]} {commit.subject}",
        source=source_of_commit(repository, package, commit, base.versions[package]),
    )
