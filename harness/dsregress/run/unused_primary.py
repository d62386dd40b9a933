"""The one release of the primary package with which a program that does not use it is measured: its other releases would
train the same."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.model import AXES, NotInstalled, Stack
from dsregress.probe.launch_line import LaunchLine
from dsregress.run.needed_packages import ProgramNeeds
from dsregress.run.pipeline import Choice
from dsregress.run.stack_locks import lock_of_stack
from dsregress.versions.stack_plans import StackPlan

_SETTINGS = (".yaml", ".yml", ".json", ".toml")
_MOST_SETTINGS = 100
_LARGEST_SETTINGS = 1 << 20


class OneRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The release that stands for all of a package."""

    package: str
    release: str
    others: bool = False  #: the user named more of them
    compares: bool = False  #: releases of another package

    @property
    def note(self) -> str:
        """Say so, and how to compare releases, unless some are compared."""
        if self.compares:
            return f"it uses no {self.package}: each stack has {self.package} {self.release}"
        which = f"with {self.package} {self.release}; --as-given measures each" if self.others else ""
        how = which or "--transformers A,B or --torch A,B compares releases"
        return f"it uses no {self.package}, so one stack is measured{'' if which else ';'} {how}"


def one_release(
    package: str, choice: Choice, base: StackPlan, line: LaunchLine, folder: Path, needs: ProgramNeeds
) -> OneRelease | None:
    """Return the release of the primary package for a program that does not use it; None if it may use it, or if the user
    chose the baseline. Of a command no file was read: its user's releases are measured."""
    named = _named_releases(package, choice, base)
    is_led_by_first = len(named) > 1 and choice.baseline == f"{package}=={named[0]}"
    if choice.baseline is not None and not is_led_by_first:
        return None
    if named:
        is_used = not needs.files or uses_package(package, line, folder, needs.in_reach)
        return None if is_used else OneRelease(package=package, release=named[0], others=len(named) > 1)
    is_varied = any(one not in AXES for one in base.axes)
    if not choice.stack and any(name in AXES for name in choice.versions):
        return None
    if uses_package(package, line, folder, needs.files):
        return None
    return OneRelease(package=package, release=base.stacks[-1].versions[package], compares=is_varied)


def _named_releases(package: str, choice: Choice, base: StackPlan) -> list[str]:
    """Return the releases of a package that the user named, without a configured one that leads them."""
    if package not in choice.versions:
        return []
    added = base.added.split(", ")
    planned = dict.fromkeys(stack.versions[package] for stack in base.stacks)
    return [release for release in planned if f"{package} {release}" not in added]


def is_required(package: str, stack: Stack, settings: Settings, installer: Installer) -> bool:
    """Return True if another package of a stack requires this one, and may use it for the program."""
    without = {name: release for name, release in stack.versions.items() if name != package}
    lock = lock_of_stack(msgspec.structs.replace(stack, versions=without), settings, installer)
    return isinstance(lock, NotInstalled) or any(text.startswith(f"{package}==") for text in lock.requirements)


def uses_package(package: str, line: LaunchLine, folder: Path, files: Collection[Path]) -> bool:
    """Return True if a line, its program's own ``files`` or a file of settings that it names mentions a package."""
    words = [line.launcher, *line.options, *line.arguments]
    values = {value for word in words for value in (word, word.rpartition("=")[2]) if value}
    if any(package in word.lower() for word in words):
        return True
    stems = {Path(value).stem for value in values}
    named = [file for value in values if (file := folder / value).suffix in _SETTINGS and file.is_file()]
    named += [file for file in folder.rglob("*.y*ml") if file.stem in stems][:_MOST_SETTINGS]
    return any(package in _text_of(file).lower() for file in (*files, *named))


def _text_of(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace") if file.stat().st_size <= _LARGEST_SETTINGS else ""
    except OSError:
        return ""
