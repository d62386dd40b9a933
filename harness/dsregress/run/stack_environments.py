"""Stacks -> environments on the target of a run."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.model import Environment, Failed, LockedStack, MachineFault, NotInstalled, Stack
from dsregress.run.stack_locks import locks_folder
from dsregress.run.targets import Build
from dsregress.run.watch import Watch
from dsregress.versions import locking
from dsregress.wording.names import outcome_text


def build_environments(
    wanted: Sequence[Stack], settings: Settings, installer: Installer, watch: Watch, build: Build
) -> tuple[Environment, ...]:
    """Return an environment for each stack, in order, made by ``build``; one that cannot be built has its ``failure``.

    Raise EnvironmentUnavailable if the machine is at fault rather than a stack.
    """
    locks = locking.lock_all(wanted, cache=locks_folder(settings), compile=installer.compile, as_of=settings.as_of)
    return build_locked(wanted, locks, build, watch)


def build_locked(
    wanted: Sequence[Stack], locks: Sequence[LockedStack | NotInstalled], build: Build, watch: Watch
) -> tuple[Environment, ...]:
    """Return an environment for each stack, in order, from its lock or its failure to lock. Raise as ``build``."""
    for stack, lock in zip(wanted, locks, strict=True):
        name = stack.label or stack.id
        if isinstance(lock, Failed):
            watch.note(f"{name} cannot be installed: {lock.signature}; choose other versions of these")
        elif isinstance(lock, MachineFault):
            watch.note(f"{name}: {outcome_text(lock)}")
    locked = [lock for lock in locks if isinstance(lock, LockedStack)]
    built = iter(
        build(locked, lambda index, state, made: watch.building(locked[index].stack, state, made)) if locked else ()
    )
    environments = tuple(
        next(built) if isinstance(lock, LockedStack) else Environment(stack=stack, lock_sha256="", failure=lock)
        for stack, lock in zip(wanted, locks, strict=True)
    )
    for line in dict.fromkeys(line for environment in environments for line in environment.notes):
        watch.note(line)
    return environments
