"""Locks of stacks, kept where the settings say: what `dsregress.versions.locking` finds for a call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.model import LockedStack, NotInstalled, Stack
from dsregress.versions import locking


def locks_folder(settings: Settings) -> Path:
    """Return the folder in which locks are kept."""
    return Path(settings.environments) / "locks"


def lock_of_stack(stack: Stack, settings: Settings, installer: Installer) -> LockedStack | NotInstalled:
    """Return the lock of a stack. Raise as `locking.lock_stack`."""
    return locking.lock_stack(stack, cache=locks_folder(settings), compile=installer.compile, as_of=settings.as_of)


def newest_beside(
    stack: Stack, limits: Mapping[str, str], settings: Settings, installer: Installer, *, held: bool = False
) -> dict[str, str] | NotInstalled:
    """Return the newest release of each package that goes with the stack and is within its limit; see
    `locking.newest_that_fit`."""
    return locking.newest_that_fit(
        stack, limits, cache=locks_folder(settings), compile=installer.compile, as_of=settings.as_of, held=held
    )


def newest_beside_all(
    stacks: Sequence[Stack], limits: Mapping[str, str], settings: Settings, installer: Installer
) -> dict[str, str] | NotInstalled:
    """Return the newest releases, as `newest_beside`, that go with every stack: those of the first one, the baseline, or
    else of another one. Those of the first if none go with all."""

    def goes(found: Mapping[str, str], stack: Stack) -> bool:
        joined = msgspec.structs.replace(stack, versions={**stack.versions, **found})
        return not isinstance(lock_of_stack(joined, settings, installer), NotInstalled)

    first = newest_beside(stacks[0], limits, settings, installer)
    if isinstance(first, NotInstalled):
        return first
    for stack in stacks[1:]:
        if not goes(first, stack):
            other = newest_beside(stack, limits, settings, installer)
            if not isinstance(other, NotInstalled) and all(goes(other, each) for each in stacks):
                return other
    return first
