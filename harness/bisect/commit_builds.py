"""Environments of commits, on this machine: a release's lock, and the framework built from its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.config.settings import Settings
from harness.envs import hardware, venv
from harness.envs.installer import Installer
from harness.model import Environment, LockedStack, Stack
from harness.run.environments import build_locked
from harness.run.targets import Progress, varied_package
from harness.run.watch import Watch
from harness.versions import commits, locking


@dataclasses.dataclass(frozen=True)
class CommitSource:
    """How a stack comes about that holds a package at a commit."""

    release: Stack  #: whose lock says what else is installed
    source: venv.Source


def known_lock(stack: Stack, settings: Settings, made_of: CommitSource | None = None) -> LockedStack | None:
    """A stack's lock where it can be had without resolving anything."""
    found = locking.known(made_of.release if made_of else stack, cache=Path(settings.environments) / "locks")
    return commits.lock_of(found, stack, made_of.source.package) if found and made_of else found


def build_commits(
    wanted: Sequence[Stack],
    made_of: Mapping[str, CommitSource],
    settings: Settings,
    installer: Installer,
    watch: Watch,
) -> tuple[Environment, ...]:
    """As `build_environments` for stacks that hold a commit, by their ids; on this machine.

    Raises EnvironmentUnavailable.
    """
    cache = Path(settings.environments) / "locks"
    origins = [made_of[stack.id] for stack in wanted]
    locks = [
        commits.lock_of(lock, stack, origin.source.package) if isinstance(lock, LockedStack) else lock
        for stack, origin, lock in zip(
            wanted,
            origins,
            locking.lock_all([origin.release for origin in origins], cache=cache, compile=installer.compile),
            strict=True,
        )
    ]

    def build(locked: Sequence[LockedStack], progress: Progress) -> tuple[Environment, ...]:
        return venv.build_all(
            locked,
            folder=Path(settings.environments),
            installer=installer,
            gpu=hardware.has_gpu(),
            framework=varied_package(settings),
            sources=[made_of[lock.stack.id].source for lock in locked],
            progress=progress,
        )

    return build_locked(wanted, locks, build, watch)
