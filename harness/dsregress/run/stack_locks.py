"""Locks of stacks, kept where the settings say: what `dsregress.versions.locking` finds for a call."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

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
