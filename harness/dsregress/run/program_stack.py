"""The stack of a program as its project wants it: the packages that it needs and the stack lacks, in the releases that the
project pins, and of the packages that every stack has those that it pins. What the user named stays.

A program that uses no DeepSpeed is measured with one release of it, as the others would train the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.errors import HarnessError, UsageError
from dsregress.model import AXES, Failed, NotInstalled, Stack
from dsregress.probe import oldest_torch
from dsregress.probe.launch_line import LaunchLine
from dsregress.run import pipeline
from dsregress.run.cpu_torch import is_torch_for_here
from dsregress.run.needed_packages import ProgramNeeds, needs_of_program
from dsregress.run.own_packages import OwnPackage, ProjectItself
from dsregress.run.pipeline import Choice
from dsregress.run.project_requirements import AddressedRequirement, DeclaredRequirement
from dsregress.run.releases_of_day import OfCommit, releases_of_commits
from dsregress.run.stack_locks import lock_of_stack, newest_beside
from dsregress.run.targets import varied_package
from dsregress.run.unused_primary import OneRelease, is_required, one_release
from dsregress.versions import releases
from dsregress.versions.stack_plans import NEWEST_THAT_FITS

#: The oldest releases with which programs were measured (results/programs-tried.md).
_OLDEST = {"transformers": "4.35.2", "accelerate": "0.22.0", "peft": "0.6.2"}

#: Releases of the time of a transformers below the first one named: partners of one that a project pins without them.
_PARTNERS: Sequence[tuple[str, Mapping[str, str]]] = json.loads(
    Path(__file__).with_name("stack_partners.json").read_text("utf-8")
)

#: Packages whose releases go with one torch each.
_OF_ONE_TORCH = ("torchaudio", "torchdata", "torchtext", "torchvision", "xformers")

#: What a resolver says of a package that excludes the stack's torch, or what goes with it.
_OF_TORCH = re.compile(rf"(?<![\w-])(?:torch|{'|'.join(_OF_ONE_TORCH)})[=<>!~]")

#: A spec of one release names none of these.
_SEVERAL = frozenset(",*<>!~")


class CompletedChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The stacks of a program with what its project wants of them."""

    choice: Choice
    notes: tuple[str, ...] = ()  #: what was added, and by which file
    added: tuple[str, ...] = ()  #: packages that the user did not name
    pinned: tuple[str, ...] = ()  #: those that the project pins, or limits to others than the stack's
    others: dict[str, str] = {}  #: package -> pin, or empty, of what else the project requires
    #: package that is added, or given without a release -> the oldest one that the project allows, unless it limits more
    oldest: dict[str, str] = {}
    searched: tuple[str, ...] = ()  #: folders of its own packages, which come before the environment
    too_old: dict[str, str] = {}  #: package -> what the project requires of it, of those that cannot be measured
    addressed: dict[
        str, tuple[str, str]
    ] = {}  #: package -> the repository from which the project takes it, and by which file


def complete_choice(
    choice: Choice, line: LaunchLine, folder: Path, device: str, settings: Settings, installer: Installer
) -> CompletedChoice:
    """Return the choice with what the program in ``folder`` needs. Existing interpreters stay as they are. Raise
    UsageError, EnvironmentUnavailable."""
    if choice.pythons:
        return CompletedChoice(choice=choice)
    newest = [canonicalize_name(name) for name, spec in choice.versions.items() if spec == NEWEST_THAT_FITS]
    choice = pipeline.with_newest(settings, choice, installer)
    base = pipeline.plan_stacks(settings, choice, installer)
    lock = lock_of_stack(base.baseline, settings, installer)
    if isinstance(lock, NotInstalled):  # what the user added may go with what the project pins of the stack's packages
        own = {name: version for name, version in base.baseline.versions.items() if name in AXES}
        lock = lock_of_stack(msgspec.structs.replace(base.baseline, versions=own), settings, installer)
    if isinstance(lock, NotInstalled):
        return CompletedChoice(choice=choice)
    needs = needs_of_program(line, folder, lock.requirements)
    primary = varied_package(settings)
    left_out = tuple(one.name for one in needs.own if not one.is_required and one.name not in choice.versions)
    choice = msgspec.structs.replace(choice, left_out=(*choice.left_out, *left_out))
    wanted = _Wanted(choice, primary, settings, installer)
    one = one_release(primary, choice, base, line, folder, needs)
    if one is not None:
        wanted.take_one_release(one)
    if not _compares_one_package(choice, primary):
        wanted.take_partners(needs.partners, base.baseline, device)
    if needs.packages:
        wanted.add_packages(needs, pipeline.plan_stacks(settings, wanted.choice(), installer).baseline)
    if wanted.has_other_partners:  # they may not bring what the stack's own do: rich comes with transformers 5 alone
        stack = pipeline.plan_stacks(settings, wanted.choice(), installer).baseline
        lock = lock_of_stack(stack, settings, installer)
        if not isinstance(lock, NotInstalled):
            wanted.add_packages(needs_of_program(line, folder, lock.requirements), stack)
    if one is not None and one.others:
        stack = pipeline.plan_stacks(settings, wanted.choice(), installer).baseline
        if is_required(primary, stack, settings, installer):
            wanted.keep_releases(one)
    addressed = (
        _addressed_note(
            name,
            one,
            wanted.choice().versions.get(name) or base.baseline.versions.get(name, ""),
            wanted.of_commits.get(name),
        )
        for name, one in needs.addressed.items()
        if name not in choice.versions
    )
    itself = [needs.itself] if needs.itself is not None and needs.itself.package not in choice.versions else []
    of_own = (*(_own_note(one, base.baseline, left_out) for one in needs.own), *map(_itself_note, itself))
    return CompletedChoice(
        choice=wanted.choice(),
        notes=(*wanted.notes, *addressed, *of_own),
        searched=(*(one.folder for one in needs.own if one.is_appended), *(one.folder for one in itself)),
        added=tuple(wanted.added),
        pinned=tuple(wanted.pinned),
        others={name: one.pin for name, one in needs.others.items() if name not in wanted.choice().versions},
        oldest={**_oldest_of({name: needs.required.get(name) for name in newest}), **wanted.oldest},
        too_old=wanted.too_old,
        addressed={name: (one.address, one.file) for name, one in needs.addressed.items()},
    )


def _addressed_note(name: str, one: AddressedRequirement, release: str, of_commit: OfCommit | None) -> str:
    taken = f"the release {release} is taken" if release else "no release of it is taken"
    if of_commit is not None and of_commit.release == release:
        taken += f", the newest of {of_commit.day}, when {one.file} came to name that commit"
    return (
        f"its project takes {name} from {one.address} ({one.file}), which may have what no release has: {taken}; to test "
        "that one, install it in an environment and give --python PATH"
    )


def _own_note(own: OwnPackage, base: Stack, left_out: Collection[str]) -> str:
    path = f", by PYTHONPATH={own.folder}" if own.is_appended else ""
    where = "its folder" if own.folder == "." else own.folder
    if own.name in left_out:
        return f"imports the {own.name} of {where}{path}: the stack is without its own, as the project requires none"
    return f"imports the {own.name} of {where}, not {own.name} {base.versions[own.name]} of the stack{path}"


def _itself_note(itself: ProjectItself) -> str:
    path = f"by PYTHONPATH={itself.folder}"
    return f"imports the {itself.module} of its project, {path}; --with {itself.package}=VERSION takes a release"


def _compares_one_package(choice: Choice, primary: str) -> bool:
    """Return True if the user chose a stack, or one release of a package that is compared with the configured one."""
    named = {name: spec for name, spec in choice.versions.items() if name in AXES}
    if choice.stack:
        return True
    return bool(named) and primary not in named and all(_SEVERAL.isdisjoint(spec) for spec in named.values())


class _Wanted:
    """A choice while it is completed."""

    def __init__(self, choice: Choice, primary: str, settings: Settings, installer: Installer) -> None:
        self._choice = choice
        self._primary = primary
        self._settings = settings
        self._installer = installer
        self._versions: dict[str, str] = {}
        self._baseline: str | None = None
        self.notes: list[str] = []
        self.added: list[str] = []
        self.pinned: list[str] = []
        self.oldest: dict[str, str] = {}
        self.too_old: dict[str, str] = {}
        self.has_other_partners = False
        self.of_commits: dict[str, OfCommit] = {}

    def choice(self) -> Choice:
        """Return the choice as it is now."""
        versions = {**self._choice.versions, **self._versions}
        return msgspec.structs.replace(
            self._choice, versions=versions, baseline=self._baseline or self._choice.baseline
        )

    def take_one_release(self, one: OneRelease) -> None:
        """Measure one release of the primary package, which the program does not use. Where others are compared, each stack
        has but one; as of a day it may be a later one, which nobody can name."""
        if not (one.compares and self._settings.as_of):
            self._versions[self._primary] = one.release
            self._baseline = f"{self._primary}=={one.release}"
        self.notes.append(one.note)

    def keep_releases(self, one: OneRelease) -> None:
        """Measure the releases that the user named after all."""
        del self._versions[self._primary]
        self._baseline = None
        self.notes.remove(one.note)

    def take_partners(self, declared: Mapping[str, DeclaredRequirement], base: Stack, device: str) -> None:
        """Take the releases that the project pins of packages that every stack has."""
        found: dict[str, str] = {}
        for name, one in declared.items():
            if name == self._primary or name in self._choice.versions:
                continue
            release = self._partner(name, one, base.versions[name], device)
            if release and (name != "torch" or self._has_cpu_build(release, one, base)):
                found[name] = release
        if (transformers := found.get("transformers")) is not None:
            for name, release in _of_its_time(transformers).items():
                if name not in (*declared, *self._choice.versions, *self._choice.left_out):
                    found[name] = release
        if not found:
            return
        self._versions.update(found)
        self.pinned += found
        self.has_other_partners = True
        if self._primary not in {**self._choice.versions, **self._versions}:  # it stays what is compared
            specs = self._settings.stack[self._primary]
            self._versions[self._primary] = specs if isinstance(specs, str) else ",".join(specs)
        defaults = " ".join(f"--{name} {base.versions[name]}" for name in found)
        taken = ", ".join(
            f"{name} {release} ({declared[name].file if name in declared else 'of its time'})"
            for name, release in found.items()
        )
        self.notes.append(f"takes {taken}; the default is {defaults}")

    def _partner(self, name: str, declared: DeclaredRequirement, current: str, device: str) -> str:
        """Return the release of a package that the project asks for; empty if the stack's own will do."""
        specifier = SpecifierSet(_limits(declared))
        if not str(specifier) or specifier.contains(current, prereleases=True):
            return ""
        known = releases.known_releases(name)
        inside = _inside(specifier, known)
        if not inside:
            try:
                known = releases.sorted_versions((*known, *self._installer.published(name)))
            except HarnessError as error:
                self.notes.append(f"{declared.file} pins {name}{specifier}, which was not found: {error.what}")
                return ""
            inside = _inside(specifier, known)
        oldest = next((one for one in known if not _is_too_old(name, one, device)), current)
        if not inside and declared.pin:  # a commit before a release: 4.40.0.dev0
            inside = [one for one in known if one == Version(declared.pin).base_version]
        if not inside and declared.pin and _is_too_old(name, declared.pin, device):
            inside = [declared.pin]
        if not inside:
            self.notes.append(f"no release is {name}{specifier} ({declared.file}): {name} {current} is taken")
            return ""
        if not _is_too_old(name, inside[-1], device):
            return inside[-1]
        self.too_old[name] = f"{name}{specifier} ({declared.file})"
        self.notes.append(f"{self.too_old[name]} is too old to be measured: {oldest} is the oldest")
        return oldest

    def _has_cpu_build(self, release: str, declared: DeclaredRequirement, base: Stack) -> bool:
        if is_torch_for_here(release, base.python, self._installer):
            return True
        self.notes.append(
            f"no index that can be reached has torch {release} ({declared.file}) for the CPU: torch "
            f"{base.versions['torch']} is taken; --torch {release} installs its CUDA packages, too"
        )
        return False

    def add_packages(self, needs: ProgramNeeds, base: Stack) -> None:
        """Add the packages that the stack lacks, each in the release that the project pins, else in the newest that goes
        with the others. Raise UsageError if none of them can be had."""
        given = self._given()
        wanted = {name: one for name, one in needs.packages.items() if name not in given}
        if not wanted:
            return
        wanted |= self._later_wheels(wanted, base)
        limits = {name: _limits(one) if one is not None else "" for name, one in wanted.items()}
        free = {name: one for name, one in needs.addressed.items() if limits.get(name) == ""}
        self.of_commits |= releases_of_commits(free, self._installer)
        limits |= {name: f"<={self.of_commits[name].release}" for name in free if name in self.of_commits}
        found = self._newest(base, limits)
        if isinstance(found, Failed) and _OF_TORCH.search(found.signature):  # an older release excludes no newer torch
            found = self._within_but_for_torch(base, limits)
        if isinstance(found, NotInstalled):  # the project's limits do not go together with the stack's
            pinned = {name: _without_build(one.pin) for name, one in wanted.items() if one is not None and one.pin}
            pinned = {
                name: pin
                for name, pin in pinned.items()
                if name not in _OF_ONE_TORCH and self._is_published(f"{name}=={pin}")
            }
            rest = {name: NEWEST_THAT_FITS for name in limits if name not in pinned}
            found = self._newest(base, {**{name: f"=={pin}" for name, pin in pinned.items()}, **rest})
            if isinstance(found, NotInstalled):  # nor do its pins, which an environment may have all the same
                found = self._newest(base, rest)
                found = found if isinstance(found, NotInstalled) else {**pinned, **found}
        if isinstance(found, NotInstalled):
            there = {name: NEWEST_THAT_FITS for name in wanted if self._is_published(name)}
            found = self._newest(base, there)
            absent = sorted(wanted.keys() - there.keys())
            if absent:
                self.notes.append(f"leaves out {', '.join(absent)}, which no index has")
        if isinstance(found, Failed):  # one of them excludes a release of the stack: torch, for which it was built
            found = self._taken_all_the_same(base, there, found)
        if isinstance(found, NotInstalled):
            hint = "give the releases that go together: --with PACKAGE=VERSION"
            raise UsageError(
                f"{', '.join(wanted)}: no releases go with the others: {found.signature}", where="--program", hint=hint
            )
        self._versions.update(found)
        self.added += found
        self.pinned += [name for name in found if (one := wanted[name]) is not None and _is_limited_above(one)]
        self.pinned += [name for name in found if name in self.of_commits]
        self.oldest.update(_oldest_of({name: wanted[name] for name in found if name not in self.pinned}))
        if found:
            self.notes.append(
                f"adds {', '.join(_added_text(found, wanted))}; --with PACKAGE=VERSION takes another release"
            )

    def _later_wheels(
        self, wanted: Mapping[str, DeclaredRequirement | None], base: Stack
    ) -> dict[str, DeclaredRequirement]:
        """Return what is taken in place of pins that would have to be compiled."""
        pinned = {
            name: one for name, one in wanted.items() if one is not None and one.pin and name not in _OF_ONE_TORCH
        }
        pins = {name: _without_build(one.pin) for name, one in pinned.items()}
        found = self._installer.later_wheels(pins, base.python)
        for name, release in found.items():
            self.notes.append(
                f"{name}=={pins[name]} ({pinned[name].file}) has no wheel for Python {base.python} and would be compiled: "
                f"{name} {release} is taken"
            )
        return {
            name: DeclaredRequirement(Requirement(f"{name}=={release}"), pinned[name].file)
            for name, release in found.items()
        }

    def _given(self) -> set[str]:
        return {str(canonicalize_name(name)) for name in self.choice().versions}

    def _newest(self, base: Stack, limits: Mapping[str, str], *, held: bool = False) -> dict[str, str] | NotInstalled:
        return newest_beside(base, limits, self._settings, self._installer, held=held) if limits else {}

    def _within_but_for_torch(self, base: Stack, limits: Mapping[str, str]) -> dict[str, str] | NotInstalled:
        """Return the newest releases within their limits; those that go with one torch each are the stack's torch's, and
        others may exclude that."""
        limits = {name: NEWEST_THAT_FITS if name in _OF_ONE_TORCH else limit for name, limit in limits.items()}
        found = self._newest(base, limits)
        if isinstance(found, Failed) and _OF_TORCH.search(found.signature):
            return self._taken_all_the_same(base, limits, found)
        return found

    def _taken_all_the_same(
        self, base: Stack, limits: Mapping[str, str], excluded: Failed
    ) -> dict[str, str] | NotInstalled:
        """Return the newest releases within their limits, whatever of the stack they exclude."""
        found = self._newest(base, limits, held=True)
        if not isinstance(found, NotInstalled):
            self.notes.append(
                f"none goes with the stack by what it requires, and is taken all the same: {_why(excluded)}"
            )
        return found

    def _is_published(self, name: str) -> bool:
        try:
            return bool(self._installer.published(name))
        except UsageError:
            return False


def _limits(declared: DeclaredRequirement) -> str:
    """Return the specifier of a requirement without builds for a CUDA, which other indexes have (``==2.2.1+cu118``)."""
    return ",".join(_without_build(str(one)) for one in declared.requirement.specifier)


def _is_limited_above(declared: DeclaredRequirement) -> bool:
    """Return False for ``datasets>=3.2.0``, which any later release meets: what is taken of it is a choice of ours."""
    return any(each.operator not in (">", ">=", "!=") for each in declared.requirement.specifier)


def _oldest_of(declared: Mapping[str, DeclaredRequirement | None]) -> dict[str, str]:
    """Return, by package, the release from which on its requirement holds, if it has one."""
    return {name: low for name, one in declared.items() if one is not None and (low := _oldest(one))}


def _oldest(declared: DeclaredRequirement) -> str:
    """Return the release from which on a requirement holds; empty if it has no lower bound."""
    bounds = [each.version for each in declared.requirement.specifier if each.operator == ">="]
    return max(bounds, key=Version, default="")


def _why(excluded: Failed) -> str:
    """Return the reason of the resolver, without the words that begin it."""
    return excluded.signature.removeprefix("no solution: ")


def _without_build(release: str) -> str:
    return release.partition("+")[0]


def _added_text(found: Mapping[str, str], wanted: Mapping[str, DeclaredRequirement | None]) -> Iterator[str]:
    for name, version in found.items():
        one = wanted[name]
        pinned = one is not None and one.requirement.specifier.contains(version, prereleases=True) and str(one.pin)
        yield f"{name} {version} ({one.file})" if one is not None and pinned else f"{name} {version}"


def _inside(specifier: SpecifierSet, known: Sequence[str]) -> list[str]:
    final = [one for one in known if not Version(one).is_prerelease]
    return list(specifier.filter(final)) or list(specifier.filter(known, prereleases=True))


def supported_release(name: str, release: str) -> str:
    """Return a release of a package, or the oldest with which programs were measured if that one is older."""
    oldest = _OLDEST.get(name, "0")
    return oldest if Version(release) < Version(oldest) else release


def _is_too_old(name: str, release: str, device: str) -> bool:
    if name == "torch":
        return oldest_torch.too_old(release, device) is not None
    return Version(release) < Version(_OLDEST.get(name, "0"))


def _of_its_time(transformers: str) -> Mapping[str, str]:
    """Return the partners of a release of transformers; empty if the newest go with it."""
    return next((partners for below, partners in _PARTNERS if Version(transformers) < Version(below)), {})
