"""Environments of commits, on this machine: a release's lock, and the framework built from its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from dsregress.config.settings import Settings
from dsregress.envs import venv
from dsregress.envs.installer import Installer
from dsregress.envs.repository import Commit, Repository
from dsregress.model import Environment, LockedStack, Stack
from dsregress.run.stack_environments import build_locked
from dsregress.run.stack_locks import locks_folder
from dsregress.run.targets import venv_build
from dsregress.run.watch import Watch
from dsregress.versions import commits, locking


@dataclasses.dataclass(frozen=True)
class CommitSource:
    """The sources from which the stack of a commit is built."""

    release: str  #: of the framework: its stack's lock pins everything else
    source: venv.Source  #: the framework at the commit

    def released(self, stack: Stack) -> Stack:
        """Return the stack of a commit with the release in its place."""
        return commits.stack_of(stack, self.source.package, self.release, label=stack.label)


#: The sources of commits, by the versions that name them in stacks.
CommitSources = Mapping[str, CommitSource]


def source_of_commit(repository: Repository, package: str, commit: Commit, release: str) -> CommitSource:
    """Return the source of a commit, which comes after ``release``."""
    source = venv.Source(package=package, unpack=lambda folder: repository.unpack(commit, folder))
    return CommitSource(release=release, source=source)


def source_of(stack: Stack, sources: CommitSources) -> CommitSource | None:
    """Return the source of a stack that holds a commit; None for one of releases."""
    return next((sources[version] for version in stack.versions.values() if version in sources), None)


def known_lock(stack: Stack, settings: Settings, commit: CommitSource | None = None) -> LockedStack | None:
    """Return the lock of a stack, None if it would have to be resolved first. ``commit``: for the stack of one."""
    released = commit.released(stack) if commit else stack
    found = locking.known_lock(released, cache=locks_folder(settings), as_of=settings.as_of)
    return commits.lock_of(found, stack, commit.source.package) if found and commit else found


def build_commits(
    stacks: Sequence[Stack], sources: CommitSources, settings: Settings, installer: Installer, watch: Watch
) -> tuple[Environment, ...]:
    """Build stacks of commits on this machine, as
    `dsregress.run.stack_environments.build_environments` builds released ones.

    Raise EnvironmentUnavailable.
    """
    origins = {stack.id: source for stack in stacks if (source := source_of(stack, sources)) is not None}
    released = locking.lock_all(
        [origins[stack.id].released(stack) for stack in stacks],
        cache=locks_folder(settings),
        compile=installer.compile,
        as_of=settings.as_of,
    )
    locks = [
        commits.lock_of(lock, stack, origins[stack.id].source.package) if isinstance(lock, LockedStack) else lock
        for stack, lock in zip(stacks, released, strict=True)
    ]
    named = {stack: origin.source for stack, origin in origins.items()}
    build = venv_build(settings, installer, named, note=watch.note)
    return build_locked(stacks, locks, build, watch)
