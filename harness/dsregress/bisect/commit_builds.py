"""Environments of commits, on this machine: a release's lock, and the framework built from its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from dsregress.config.settings import Settings
from dsregress.envs import venv
from dsregress.envs.installer import Installer
from dsregress.model import Environment, LockedStack, Stack
from dsregress.run.stack_environments import build_locked
from dsregress.run.targets import venv_build
from dsregress.run.watch import Watch
from dsregress.versions import commits, locking


@dataclasses.dataclass(frozen=True)
class CommitSource:
    """The sources from which the stack of a commit is built."""

    release: Stack  #: its lock pins everything but the framework
    source: venv.Source  #: the framework at the commit


def known_lock(stack: Stack, settings: Settings, commit: CommitSource | None = None) -> LockedStack | None:
    """Return the lock of a stack, None if it would have to be resolved first. ``commit``: for the stack of one."""
    found = locking.known_lock(commit.release if commit else stack, cache=_locks(settings), as_of=settings.as_of)
    return commits.lock_of(found, stack, commit.source.package) if found and commit else found


def build_commits(
    stacks: Sequence[Stack],
    sources: Mapping[str, CommitSource],
    settings: Settings,
    installer: Installer,
    watch: Watch,
) -> tuple[Environment, ...]:
    """Build stacks of commits on this machine, as
    `dsregress.run.stack_environments.build_environments` builds released ones. ``sources`` are by stack id.

    Raise EnvironmentUnavailable.
    """
    origins = [sources[stack.id] for stack in stacks]
    released = locking.lock_all(
        [origin.release for origin in origins],
        cache=_locks(settings),
        compile=installer.compile,
        as_of=settings.as_of,
    )
    locks = [
        commits.lock_of(lock, stack, origin.source.package) if isinstance(lock, LockedStack) else lock
        for stack, origin, lock in zip(stacks, origins, released, strict=True)
    ]

    named = {stack: origin.source for stack, origin in sources.items()}
    build = venv_build(settings, installer, named, note=watch.note)
    return build_locked(stacks, locks, build, watch)


def _locks(settings: Settings) -> Path:
    return Path(settings.environments) / "locks"
