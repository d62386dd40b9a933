"""The reader's job, as the options of a command state it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from dsregress.advisories.advisory import Advisory
from dsregress.advisories.auditing import StatedJob
from dsregress.advisories.covered_packages import unlisted_releases
from dsregress.advisories.job_facts import Fact, OneOf, contradiction, merged_facts, said_fact, said_text
from dsregress.advisories.matching import known_packages, known_versions, parsed
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.stated.accelerate_yaml import facts_of_accelerate
from dsregress.advisories.stated.documents import Document
from dsregress.advisories.stated.launch import facts_of_file, facts_of_line, misspelt_keys
from dsregress.advisories.stated.model_configuration import facts_of_models
from dsregress.cli.configured_job import WHERE, configured_packages
from dsregress.cli.lines import print_note
from dsregress.cli.named_files import STDIN
from dsregress.cli.options import JobOptions
from dsregress.cli.package_files import packages_of_file
from dsregress.config.settings import Settings
from dsregress.config.variables import child_environment
from dsregress.errors import NothingMeasured, UsageError
from dsregress.model import AXES
from dsregress.probe.border.surroundings import ENVIRONMENT
from dsregress.report.answers.audit_answer import conflict_notes
from dsregress.versions import installed
from dsregress.versions.declared_requirements import committed_releases, releases_within
from dsregress.versions.installed import InstalledPackages
from dsregress.versions.releases import known_releases, parsed_version
from dsregress.versions.yanked import yanked_releases

#: Packages whose presence is a fact of its own.
_OPTIONAL = ("vllm", "pillow", "requests")


def stated_job(
    job: JobOptions, packages: FoundPackages, more: Sequence[Fact] = (), observed: Sequence[Fact] = ()
) -> StatedJob:
    """Return the job that options and files state. What was ``observed`` wins over what they state, but for what the reader
    says. Raise UsageError."""
    read: list[Fact] = []
    for file in job.configs:
        absent: list[str] = []
        read += (stated := facts_of_file(file, Path(), absent))
        _note_absent(absent)
        if not stated:
            print_note(f"{file} states nothing that is known here: it has no key of DeepSpeed, accelerate or a trainer")
        for key, meant in misspelt_keys(file, Path()):
            print_note(f"{file}: DeepSpeed has no {key}, and ignores it; did you mean {meant}?")
    if job.program is not None:
        of_line, of_program = facts_of_line(job.program.line, Path(job.program.folder))
        read += of_line
        _note_absent(of_program)
    read += [Fact(name="card", value=job.card.name, source="--gpu")] if job.card is not None else []
    read += [Fact(name="world_size", value=job.ranks, source="--ranks")] if job.ranks is not None else []
    certain = [fact for fact in observed if not isinstance(fact.value, OneOf) or not fact.value.values]
    read += [fact for fact in observed if fact not in certain]
    own = [said_fact(text) for text in job.said]
    if found := contradiction(own):
        both = " and ".join(f"{one.name}={said_text(one.value)}" for one in found)
        raise UsageError(f"{both} exclude each other", where="--set", hint="state one of them")
    said = [*certain, *own]
    read += facts_of_models([*read, *said], Path(job.program.folder) if job.program is not None else Path())
    facts, conflicts = merged_facts([*read, *more, *packages.facts], said)
    for line in conflict_notes(conflicts):
        print_note(line)
    return StatedJob(
        versions=packages.versions,
        facts=facts,
        conflicts=conflicts,
        absent=packages.absent,
        ranges=packages.ranges,
    )


def _note_absent(files: Iterable[str]) -> None:
    for file in files:
        print_note(f"{file} is not here, so that what it states is not known: give it with --config")


#: The goal that is the newest release known here.
LATEST = "latest"


_OPEN_GOAL = re.compile(r"(?P<name>[A-Za-z][\w.-]*?)(?:\[.*\])?\s*(?P<bounds>(?:[<>~!]=?|=(?!=)).*)?")


def check_named_release(text: str, packages: Collection[str]) -> None:
    """Raise UsageError for a goal that is a package without its release: ``deepspeed``, ``deepspeed>=0.18``."""
    found = _OPEN_GOAL.fullmatch(text.strip())
    if found is None or os.path.exists(text):
        return
    name = str(canonicalize_name(found["name"]))
    if found["bounds"] or name in packages:
        what = f"{text!r} names no release" if found["bounds"] is None else f"{text!r} is no single release"
        raise UsageError(what, where="--to", hint=f"write {name}==VERSION")


def goal_release(package: str, spec: str, hint: str) -> str | None:
    """Return the release of a package to go to, of ``--to``; None if the newest is asked for, and none is known. Raise
    UsageError, with the hint, for what is no version."""
    if spec == LATEST:
        known = offline_releases(package)
        return known[-1] if known else None
    if (version := parsed_version(spec)) is None:
        raise UsageError(f"{spec!r} is not a version", where="--to", hint=hint)
    return version.public  # a build for a card, 2.13.0+cu126, is its release


def offline_releases(package: str) -> tuple[str, ...]:
    """Return the releases of a package that are known here, the oldest first: of one that is no axis, those of which
    requirements are, or else those that advisories name."""
    return committed_releases(package) or tuple(known_versions(read_advisories(), package))


def releases_of_goal(
    file: str, goal: InstalledPackages, versions: Mapping[str, str], ranges: Mapping[str, str]
) -> dict[str, str]:
    """Return the releases that a file gives to packages that have ``versions`` or ``ranges``: those that it pins, and of
    those that it bounds the one that is there, or else the newest within the bounds, as an installer does."""
    found = dict(goal.versions)
    for name, bounds in goal.ranges.items():
        newest = releases_within(name, bounds)[-1:]
        stays = (
            SpecifierSet(bounds).contains(versions[name], prereleases=True)
            if name in versions
            else ranges.get(name, bounds) == bounds
        )
        if newest and not stays:
            found[name] = newest[0]
            print_note(f"{file} does not pin {name} {bounds}: {newest[0]} is taken, the newest known of these")
    return found


def uses_deepspeed(job: StatedJob) -> bool:
    """Return True unless a job is known to train without DeepSpeed, of which the scenarios here are."""
    used = job.facts.get("deepspeed")
    return "deepspeed" in job.versions and (used is None or used.value is not False)


def kept_releases(versions: Mapping[str, str], changing: Collection[str]) -> dict[str, list[str]]:
    """Return the releases that a measurement beside those of ``changing`` packages takes: of an axis, one that is known."""
    return {
        name: [version]
        for name, version in versions.items()
        if name not in changing and (name not in AXES or version in known_releases(name))
    }


class FoundPackages:
    """The packages of a job: `versions`, and those that are known to be `absent`."""

    def __init__(self, packages: Sequence[InstalledPackages], advisories: Sequence[Advisory], where: str) -> None:
        self.where = where
        self.versions = {name: version for one in packages for name, version in one.versions.items()}
        self.unknown = {name: why for one in packages for name, why in one.unknown.items() if name not in self.versions}
        self.ranges = dict.fromkeys(self.unknown, "") | {
            name: bounds for one in packages for name, bounds in one.ranges.items() if name in self.unknown
        }
        self.cuda = next((one.cuda for one in packages if one.cuda), "")
        self._settings = {key: value for one in packages for key, value in one.settings.items()}
        self.known = known_packages(advisories)
        self.absent: frozenset[str] = frozenset()
        if any(one.is_whole for one in packages):
            self.absent = frozenset({*self.known, *_OPTIONAL} - self.versions.keys() - self.unknown.keys())

    @property
    def facts(self) -> list[Fact]:
        """The facts that a package is installed, or not, that the packages are for GPUs, and what the settings beside them
        state, which are accelerate's default: another file gives them up."""
        present = [name for name in _OPTIONAL if name in self.versions]
        absent = [name for name in _OPTIONAL if name in self.absent]
        settings = facts_of_accelerate(Document(self._settings, self.where)) if self._settings else ()
        return [
            *(msgspec.structs.replace(one, yields=True) for one in settings),
            *(Fact(name=name, value=True, source=f"{self.where}: {name}") for name in present),
            *(Fact(name=name, value=False, source=f"{self.where}: no {name}") for name in absent),
            *(
                [Fact(name="device", value="cuda", source=f"{self.where}: {self.cuda}", yields=True)]
                if self.cuda
                else []
            ),
        ]


def packages_before(files: Sequence[str], branch: str, settings: Settings) -> InstalledPackages:
    """Return the packages of these files at the last commit that the checked-out one shares with a branch. Raise
    UsageError, EnvironmentUnavailable."""
    from dsregress.run.repositories import open_repository  # as is `existing` below: most calls need neither

    repository = open_repository(settings.root, settings)
    commit = repository.merge_base(repository.head(), branch)
    found = []
    for file in files:
        place = Path(file).resolve()
        data = repository.file_at(commit, place.relative_to(repository.root()).as_posix())
        if data is not None:
            found.append(installed.read_packages(data, f"{branch}: {file}"))
    return installed.merged_packages(found)


def _check_pins(given: Mapping[str, InstalledPackages]) -> None:
    """Raise UsageError if two places pin a package differently."""
    pinned: dict[str, tuple[str, str]] = {}
    for where, packages in given.items():
        for name, version in packages.versions.items():
            first, pin = pinned.setdefault(name, (where, version))
            if pin != version:
                what = f"{name} is {pin} in {first} and {version} in {where}"
                raise UsageError(what, where="-r", hint="leave one of them out; --to FILE names where the job is to go")


def installed_packages(
    sources: Sequence[str], python: str | None, advisories: Sequence[Advisory], settings: Settings
) -> FoundPackages:
    """Return the packages of all sources, or those that are configured. Raise UsageError, NothingMeasured if no advisory
    knows any."""
    configured = configured_packages(settings) if not sources and python is None else []
    if not sources and python is None and not configured:
        hint = f"give -r FILE or --python PATH, or configure {WHERE}"
        raise UsageError("no packages", where="command line", hint=hint)
    given: dict[str, InstalledPackages] = {}
    for source in sources:
        name = STDIN if source == "-" else source
        given[name] = packages_of_file(source)
        for line in given[name].unread:
            print_note(f"{name}: {line} is not read")
    if python is not None:
        from dsregress.envs import existing

        given[python] = installed.packages_of(
            existing.installed_versions(python, {**child_environment(), **ENVIRONMENT})
        )
    _check_pins(given)
    packages = [*(found for _, found in configured), *given.values()]
    named = list(given)
    found = FoundPackages(packages, advisories, " ".join(named) or " ".join(file for file, _ in configured))
    mine = found.known & found.versions.keys()
    if not mine:
        unknown = [f"{name} ({found.unknown[name]})" for name in sorted(found.known & found.unknown.keys())]
        what = f"does not pin {', '.join(unknown)}" if unknown else f"has none of {', '.join(sorted(found.known))}"
        hint = "`pip freeze > installed.txt` in its environment prints the pins: give that file"
        hint = hint if python is None else "name the environment that trains"
        raise NothingMeasured(what, where=found.where, hint=hint)
    for name in sorted(found.known & found.unknown.keys()):
        if found.ranges[name]:
            print_note(f"{name} {found.ranges[name]}: not pinned, so that only what all these releases share is known")
        else:
            print_note(f"{name}: {found.unknown[name]}, so that its release is not known")
    note_unlisted(found.versions, found.known)
    return found


def note_unlisted(versions: Mapping[str, str], packages: Collection[str]) -> None:
    """Say which releases of the packages are not known to be published, or were yanked."""
    for name in sorted(packages & versions.keys()):
        if (reason := yanked_releases().get(name, {}).get(versions[name])) is not None:
            because = f" ({reason})" if reason else ""
            newer = next((one for one in committed_releases(name) if parsed(one) > parsed(versions[name])), "")
            print_note(f"{name} {versions[name]} was yanked by its publisher{because}; the next release is {newer}")
        for release in unlisted_releases(read_advisories(), versions, [name]):
            newest = committed_releases(name)[-1]
            newer = f"newer than all that are known here, up to {newest}"
            is_newer = parsed(versions[name]) > parsed(newest)
            print_note(f"{release} is {newer if is_newer else 'no release that is known here'}")
