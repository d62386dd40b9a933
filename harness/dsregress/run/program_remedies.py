"""The remedy for a first run of a program that could not be measured: what the line about it tells its user to do, carried
out where that is certain. Pure, but for a table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from packaging.version import Version

from dsregress.advice.other_packages import OF_A_CALL, packages_to_try
from dsregress.compare.failed_imports import failed_import, is_not_loaded
from dsregress.compare.outcomes import NO_RANK
from dsregress.model import AXES, Failed, MachineFault, Outcome, Signature, Stack, read_signature
from dsregress.probe import launch_line
from dsregress.probe.border import machine
from dsregress.probe.border.detail_lines import package_refusing
from dsregress.probe.border.masking import masked_launch_line
from dsregress.probe.module_packages import module_named, packages_by_module
from dsregress.run.available_workloads import Program
from dsregress.run.pipeline import Choice
from dsregress.run.refusals import says_what_to_do
from dsregress.versions.stack_plans import NEWEST_THAT_FITS
from dsregress.wording.quantities import listing

_WITH = re.compile(r"--with ([A-Za-z0-9][\w.-]*)(?:=([\w.]+))?")
#: The line after one that has no room for all packages.
_ALL_PACKAGES = re.compile(r"^All \d+: give ((?:--with \S+ ?)+)$", re.MULTILINE)
_PLACEHOLDER = "PACKAGE"
_WITH_PACKAGE = f"--with {_PLACEHOLDER}"
_MOST_OTHERS = 25  #: a project that requires more is an environment of its own

#: Packages of every stack that a program goes with by their day. torch and DeepSpeed go with older programs.
_PARTNERS = ("transformers", "accelerate", "peft")

#: A class or a module that a release of transformers lacks.
_NOT_IN_TRANSFORMERS = re.compile(r"cannot import name '\w+' from 'transformers|No module named 'transformers\.")

#: A name that torch has lost.
_NOT_IN_TORCH = re.compile(
    r"cannot import name '\w+' from 'torch[.']|No module named 'torch\.|module 'torch[\w.]*' has no attr"
)

#: What an error says, and the last releases of a dependency that do not raise it.
_TABLE = Path(__file__).with_name("older_dependencies.json")
_OLDER_DEPENDENCIES: Sequence[tuple[str, Mapping[str, str]]] = json.loads(_TABLE.read_text("utf-8"))

#: The words of Python for a package that is not installed, of which a part would have a dot.
_ABSENT_MODULE = re.compile(r"No module named '(\w+)'")

_RANKS = re.compile(r"give --ranks (\d{1,3})\b")
#: What a line says of a key is masked.
_VARIABLES = re.compile(r"write ((?:\w+=(?:VALUE|\*+) )+)before the line")
_CARDS = "CUDA_VISIBLE_DEVICES"
#: Variables whose value is sent to a server, and so nowhere in a run.
_CREDENTIAL = re.compile(r"(?:_|\b)(?:KEY|TOKEN|SECRET|PASSWORD)$")
_SHAPES_OF = re.compile(r"for the shapes of ([^\s,]+)")
_STEPS = re.compile(r"ended after (\d{1,3}) optimizer steps?, and \d+ are needed: give it .* --steps (\d{1,3})$")
_PATH = re.compile(r"write PYTHONPATH=(\S+) before the line")
_REFUSED_ARGUMENT = re.compile(r"exits with 2: .*error: (?:unrecognized arguments|argument )")
_REFUSED_RANK = re.compile(r"unrecognized arguments: .*--local-rank=")
_OLD_LAUNCHER = re.compile(r"(?<!\S)(?:\S*/)?python[\d.]*(?:\s+-[uBOsSEI])*\s+-m\s+torch\.distributed\.launch\s+")
_NO_SOLUTION = "no solution"
_DISPENSABLE = ("peft", "accelerate")  #: usual packages that the others do without
_SHORTEST_NAME = 4  #: of names that are compared by their beginnings
_OF_ABSENCE = ("OSError", "FileNotFoundError", "ConnectionError")
_NAMED_MODULES = re.compile(r"'(\w+)'")
_PYTHON = re.compile(r"(?<!\S)(?:\S*/)?python[\d.]*(?:\s+-[uBOsSEI])*\s+(?=\S)")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A way to measure a program."""

    program: Program
    choice: Choice
    added: tuple[str, ...] = ()  #: packages that its user did not name
    pinned: tuple[str, ...] = ()  #: of these and of every stack's, those that its project pins
    unpinned: tuple[str, ...] = ()  #: packages whose pins cannot be installed
    others: Mapping[str, str] = {}  #: package -> pin, or empty, of what else its project requires
    oldest: Mapping[str, str] = {}  #: added package -> the oldest release that its project allows
    too_old: Mapping[str, str] = {}  #: package -> what its project requires of it, of those that cannot be measured
    addressed: Mapping[
        str, tuple[str, str]
    ] = {}  #: package -> the repository from which its project takes it, and the file
    left_out: tuple[str, ...] = ()  #: packages that cannot be installed
    fixed: tuple[str, ...] = ()  #: packages whose release stays: those that its user named, or a remedy needs
    undated: tuple[str, ...] = ()  #: of the fixed ones, those whose release the user left open
    dated: tuple[str, ...] = ()  #: of the fixed ones, those that were taken from the program's day
    said: tuple[str, ...] = ()  #: what was said of the project's packages
    stacks: Mapping[str, Mapping[str, str]] = {}  #: the configured ones by name, of which another may be taken
    compared: Mapping[str, str] = {}  #: package -> its configured releases, which are compared unless others are named


class Remedy(NamedTuple):
    """Another attempt, and a line that says in what it differs."""

    attempt: Attempt
    line: str


class OfItsDay(NamedTuple):
    """The releases of the day on which a project was last changed, or what is compared with it was uploaded."""

    day: str  #: empty if it is not known
    releases: Mapping[str, str]
    of: str = "its last commit"  #: what is of that day
    unbuilt_torch: str = ""  #: the torch of that day, if no index that can be reached has it for this machine


#: Returns the releases of these packages on the day of the program.
ReleasesOfItsDay = Callable[[Collection[str]], OfItsDay]


#: Returns the release of a dependency on the day on which a release of a package, by name and version, was uploaded.
DependencyOfDay = Callable[[str, str, str], OfItsDay]


def remedy_of(
    outcome: Outcome,
    attempt: Attempt,
    stack: Stack,
    of_its_day: ReleasesOfItsDay,
    dependency_of_day: DependencyOfDay = lambda package, version, dependency: OfItsDay("", {}),
) -> Remedy | None:
    """Return what to try after an attempt ended so on ``stack``; None if no remedy is certain, or it passed."""
    if isinstance(outcome, MachineFault) and outcome.fault == machine.BUILD_DOWNLOAD:
        return _unpinned(outcome, attempt) or _left_out(outcome, attempt)
    if not isinstance(outcome, Failed):
        return None
    signature = read_signature(outcome.signature)
    if outcome.stage == "install":
        return (
            _of_its_time(outcome, attempt, stack, of_its_day)
            or _unpinned(outcome, attempt)
            or _left_out(outcome, attempt)
            or _without_partner(outcome, attempt, stack)
        )
    if (found := _older_dependency(signature, attempt)) is not None:
        return found
    if (found := _dependency_of_day(signature, attempt, stack, dependency_of_day)) is not None:
        return found
    if says_what_to_do(outcome):
        more = _ALL_PACKAGES.findall(outcome.detail)[-1:]
        remedies = (remedy(" ".join((signature.message, *more)), attempt) for remedy in _REMEDIES)
        return next((one for one in remedies if one is not None), None)
    if (launched := _torchrun(signature.message, attempt)) is not None:
        return launched
    if signature.error == "ProgramError" and not _REFUSED_ARGUMENT.search(signature.message):
        return _fewer_steps(signature.message, attempt)
    if (found := _undeclared(signature, attempt)) is not None:
        return found
    if (beyond := _beyond_its_pin(outcome, attempt, stack, of_its_day)) is not None:
        return beyond
    is_of_a_line = signature.error == "ProgramError"
    suspected = ["transformers"] if is_of_a_line else _suspected(signature, outcome.stage, stack)
    if not suspected:
        return None
    return (
        _newer_transformers(signature, attempt, stack)
        or _newest_with_torch(signature, suspected, attempt, stack)
        or (_older_packages(signature, attempt, stack, of_its_day) if suspected != ["torch"] else None)
        or _older_transformers(signature, suspected, attempt, stack)
        or _older_torch(signature, suspected, attempt, stack, of_its_day)
        or _oldest_allowed(signature, suspected, attempt, stack)
    )


def _packages(said: str, attempt: Attempt) -> Remedy | None:
    usual = {*AXES} - {*attempt.choice.left_out}
    has = {*attempt.choice.versions, *attempt.left_out, *usual, _PLACEHOLDER}
    pins = {**attempt.others, **{name: pin for name, pin in _WITH.findall(said) if pin}}
    found = {
        name: pins.get(name) or NEWEST_THAT_FITS for name, _ in _WITH.findall(said) if not {name, name.lower()} & has
    }
    if not found:
        return None
    names = [*found]
    versions = {**attempt.choice.versions, **found}
    choice = msgspec.structs.replace(attempt.choice, versions=versions)
    pinned = (name for name, pin in found.items() if pin)
    more = msgspec.structs.replace(
        attempt, choice=choice, added=(*attempt.added, *names), pinned=(*attempt.pinned, *pinned)
    )
    return Remedy(more, f"adds {listing(names, len(names))}, which it lacks when it runs")


def _undeclared(signature: Signature, attempt: Attempt) -> Remedy | None:
    """Add what a package imports without requiring it, so that the rest of the program is measured."""
    found = _ABSENT_MODULE.search(signature.message)
    if found is None or signature.is_of_program:
        return None
    package = packages_by_module().get(found[1], found[1].replace("_", "-"))
    more = _packages(f"--with {package}", attempt)
    if more is None:
        return None
    place = f" ({signature.file})" if signature.file else ""
    return more._replace(line=f"adds {package}, which a package imports and does not require{place}")


def unknown_modules(said: str) -> list[str]:
    """Return the modules that a program lacks, and of which no known package brings the first, by the line about them."""
    return _NAMED_MODULES.findall(said) if f"with {_WITH_PACKAGE}" in said else []


def _other_requirements(said: str, attempt: Attempt) -> Remedy | None:
    """Add the rest of what the project requires for a module whose package is not known by its name."""
    modules = {module.lower() for module in unknown_modules(said)} - {*map(module_named, attempt.addressed)}
    if not modules:
        return None
    of_that_name = {name: pin for name, pin in attempt.others.items() if _names_of(name) & modules}
    alike = {name: pin for name, pin in attempt.others.items() if _resembles(name, modules)}
    if not of_that_name and len(alike) == 1:
        of_that_name = alike
    adds = of_that_name or attempt.others
    if not 0 < len(adds) <= _MOST_OTHERS:
        return None
    choice = msgspec.structs.replace(attempt.choice, versions={**adds, **attempt.choice.versions})
    more = msgspec.structs.replace(
        attempt,
        choice=choice,
        added=(*attempt.added, *adds),
        pinned=(*attempt.pinned, *(name for name, pin in adds.items() if pin)),
        others={name: pin for name, pin in attempt.others.items() if name not in adds},
    )
    what = said.partition(": ")[2].partition(":")[0]
    return Remedy(more, f"{what}: adds what else its project requires: {listing([*adds], _MOST_OTHERS)}")


def _names_of(package: str) -> set[str]:
    """Return the names of modules that a package of this name would have."""
    name = package.replace("-", "_")
    return {name, name.removeprefix("python_"), name.removesuffix("_python")}


def _resembles(package: str, modules: Collection[str]) -> bool:
    """Return True if one of two names begins with the other: ``patool`` has the module ``patoolib``."""
    name = package.replace("-", "_")
    return any(
        min(len(name), len(module)) >= _SHORTEST_NAME and (module.startswith(name) or name.startswith(module))
        for module in modules
    )


def without_what_cannot_be_had(attempt: Attempt, before: Attempt, reason: str) -> Remedy | None:
    """Return an attempt without those packages that it adds to the one before it, for which there is no release; None if the
    reason names none of them, or nothing else is added."""
    added = [name for name in attempt.choice.versions if name not in before.choice.versions]
    there = reason.partition("no solution")[2] or reason
    absent = [name for name in added if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", there)]
    if not absent or len(absent) == len(added):
        return None
    versions = {name: spec for name, spec in attempt.choice.versions.items() if name not in absent}
    less = msgspec.structs.replace(
        attempt,
        choice=msgspec.structs.replace(attempt.choice, versions=versions),
        added=tuple(name for name in attempt.added if name not in absent),
        pinned=tuple(name for name in attempt.pinned if name not in absent),
        left_out=(*attempt.left_out, *absent),
    )
    return Remedy(
        less, f"leaves out {listing(absent, len(absent))}, of which no release goes with the others: {reason}"
    )


def _rows(said: str, attempt: Attempt) -> Remedy | None:
    if "--synthetic-data" not in said or attempt.program.synthetic_data:
        return None
    what, _, advice = said.partition(": ")[2].partition(": give --synthetic-data")
    made = "the model keeps its initial weights" if "initial weights" in advice else "its rows are made up"
    if (shapes := _SHAPES_OF.search(advice)) is not None:
        made = f"{shapes[1]}, whose name it has, takes its place"
    return _changed(attempt, f"{what}: {made} (--synthetic-data)", synthetic_data=True)


def _more_ranks(said: str, attempt: Attempt) -> Remedy | None:
    found = _RANKS.search(said)
    if found is None or attempt.program.ranks is not None:
        return None
    return _changed(attempt, f"runs as {found[1]} ranks, which it starts itself (--ranks)", ranks=int(found[1]))


def _fewer_steps(said: str, attempt: Attempt) -> Remedy | None:
    """Measure the last step of a program that takes fewer than usual."""
    found = _STEPS.search(said)
    if found is None or attempt.program.steps <= int(found[2]):
        return None
    steps = int(found[2])
    if steps:
        return _changed(
            attempt, f"takes {found[1]} optimizer steps: its last one is measured (--steps {steps})", steps=steps
        )
    only = "its only one, which allocates the optimizer's state, is measured"
    return _changed(attempt, f"takes 1 optimizer step: {only} (--steps 0)", steps=0)


def _path(said: str, attempt: Attempt) -> Remedy | None:
    found, line = _PATH.search(said), attempt.program.line
    if found is None:
        return None
    extended = line_searching(line, found[1])
    if extended == line:
        return None
    return _changed(
        attempt, f"runs with PYTHONPATH={found[1]}, as it imports modules of its own from there", line=extended
    )


def line_searching(line: str, folder: str) -> str:
    """Return a launch line with a folder first in its ``PYTHONPATH``."""
    path = f"PYTHONPATH={folder}"
    if f"{path} " in line or f"{path}:" in line:
        return line
    return line.replace("PYTHONPATH=", f"{path}:", 1) if "PYTHONPATH=" in line else f"{path} {line}"


def _credentials(said: str, attempt: Attempt) -> Remedy | None:
    """Give a value to a key or a token, which no server sees: a run has no network."""
    found, line = _VARIABLES.search(said), attempt.program.line
    names = [word.partition("=")[0] for word in found[1].split()] if found is not None else []
    if not names or not all(map(_CREDENTIAL.search, names)) or any(f"{name}=" in line for name in names):
        return None
    given = " ".join(f"{name}=unused" for name in names)
    return _changed(attempt, f"runs with {given}, which a run without network sends nowhere", line=f"{given} {line}")


def _cards(said: str, attempt: Attempt) -> Remedy | None:
    """Say which cards there are, as a machine of several users does: one for each rank."""
    found, line = _VARIABLES.search(said), attempt.program.line
    if found is None or found[1].split() != [f"{_CARDS}=VALUE"] or f"{_CARDS}=" in line:
        return None
    ranks = attempt.program.ranks or launch_line.parse(line).ranks or 1
    given = f"{_CARDS}={','.join(map(str, range(ranks)))}"
    return _changed(attempt, f"runs with {given}, as a machine of several users sets it", line=f"{given} {line}")


def _launcher(said: str, attempt: Attempt) -> Remedy | None:
    line = attempt.program.line
    launched = _PYTHON.sub("torchrun ", line, count=1)
    if NO_RANK not in said or launched == line:
        return None
    return _changed(attempt, f"is started by {masked_launch_line(launched)}, as it asks for its rank", line=launched)


def _torchrun(said: str, attempt: Attempt) -> Remedy | None:
    """Start a program of torch 1 so that no ``--local-rank`` is passed to it."""
    line = attempt.program.line
    launched = _OLD_LAUNCHER.sub("torchrun ", line, count=1)
    if not _REFUSED_RANK.search(said) or launched == line:
        return None
    why = "as it does not know the --local-rank that torch.distributed.launch passes from torch 2 on"
    return _changed(attempt, f"is started by torchrun, {why}", line=launched)


_REMEDIES: tuple[Callable[[str, Attempt], Remedy | None], ...] = (
    _packages,
    _other_requirements,
    _rows,
    _more_ranks,
    _path,
    _credentials,
    _cards,
    _launcher,
)


def _changed(attempt: Attempt, said: str, /, **fields: object) -> Remedy:
    program = msgspec.structs.replace(attempt.program, **fields)
    return Remedy(msgspec.structs.replace(attempt, program=program), said)


def _of_its_time(outcome: Failed, attempt: Attempt, stack: Stack, of_its_day: ReleasesOfItsDay) -> Remedy | None:
    """Keep what a project pins, if it does not go with the newest releases of what it does not pin."""
    is_of_pins = any(name in attempt.pinned for name in attempt.added)
    if not is_of_pins or not outcome.signature.startswith(_NO_SOLUTION):
        return None
    return _older_packages(Signature(outcome.signature), attempt, stack, of_its_day)


def _unpinned(outcome: Failed | MachineFault, attempt: Attempt) -> Remedy | None:
    """Take the newest releases of packages that were added for the program, if those that its project pins cannot be
    installed here: of the one that cannot be built alone, and then of all."""
    names = [name for name in attempt.pinned if name in attempt.added and name in attempt.choice.versions]
    one = _names_one(outcome, attempt.added)
    if not names or not one:
        return None
    if one in names and not attempt.unpinned and not outcome.signature.startswith(_NO_SOLUTION):
        names = [one]
    versions = {**attempt.choice.versions, **dict.fromkeys(names, NEWEST_THAT_FITS)}
    choice = msgspec.structs.replace(attempt.choice, versions=versions)
    pinned = tuple(name for name in attempt.pinned if name not in names)
    newer = msgspec.structs.replace(attempt, choice=choice, pinned=pinned, unpinned=(*attempt.unpinned, *names))
    said = f"takes the newest {listing(names, len(names))}"
    return Remedy(newer, f"{said}: what it pins cannot be installed ({outcome.signature})")


def _left_out(outcome: Failed | MachineFault, attempt: Attempt) -> Remedy | None:
    """Leave out a package that was added for the program and cannot be installed here."""
    name = _names_one(outcome, [name for name in attempt.added if name in attempt.choice.versions])
    if not name:
        return None
    versions = {other: spec for other, spec in attempt.choice.versions.items() if other != name}
    choice = msgspec.structs.replace(attempt.choice, versions=versions)
    less = msgspec.structs.replace(attempt, choice=choice, left_out=(*attempt.left_out, name))
    return Remedy(less, f"leaves out {name}, which cannot be installed here: {outcome.signature}")


def _without_partner(outcome: Failed, attempt: Attempt, stack: Stack) -> Remedy | None:
    """Leave out a usual package that nobody named, if its release goes with none of those that were named: a program that
    lacks it is then given the newest that fits."""
    named = {*attempt.choice.versions, *attempt.fixed}
    name = _names_one(outcome, [one for one in _DISPENSABLE if one in stack.versions and one not in named])
    if not name or not outcome.signature.startswith(_NO_SOLUTION):
        return None
    choice = msgspec.structs.replace(attempt.choice, left_out=(*attempt.choice.left_out, name))
    return Remedy(
        msgspec.structs.replace(attempt, choice=choice), f"leaves out {name}, which was not named: {outcome.signature}"
    )


def _names_one(outcome: Failed | MachineFault, names: Collection[str]) -> str:
    """Return the one of these packages that a failed installation names; empty if it names none."""
    for said in (outcome.signature.lower(), outcome.detail.lower()):
        for name in names:
            if re.search(rf"(?<![\w-]){re.escape(name.lower())}(?![\w-])", said):
                return name
    return ""


def _suspected(signature: Signature, stage: str, stack: Stack) -> list[str]:
    """Return the packages of which other releases may pass, if the error is one of a call of theirs, or in their code. What
    is absent from this machine, as an added package says, is so with any release."""
    if signature.error in _OF_ABSENCE and signature.package not in AXES and not is_not_loaded(signature):
        return []
    tried = packages_to_try(signature, stage, stack, ())
    if signature.error in OF_A_CALL or signature.package in {name.replace("-", "_") for name in tried}:
        return tried
    return []


def _older_dependency(signature: Signature, attempt: Attempt) -> Remedy | None:
    """Take the last release of a dependency that has what later ones lack, which no file of the project limits."""
    for says, releases in _OLDER_DEPENDENCIES:
        has = {*attempt.choice.versions, *attempt.left_out}
        new = {name: release for name, release in releases.items() if name not in has}
        if not new or not re.search(says, signature.message):
            continue
        choice = msgspec.structs.replace(attempt.choice, versions={**attempt.choice.versions, **new})
        said = ", ".join(f"{name} {release}" for name, release in new.items())
        more = msgspec.structs.replace(
            attempt, choice=choice, added=(*attempt.added, *new), fixed=(*attempt.fixed, *new)
        )
        return Remedy(more, f"fails with a newer one ({signature.message}): takes {said}")
    return None


def _dependency_of_day(signature: Signature, attempt: Attempt, stack: Stack, of_day: DependencyOfDay) -> Remedy | None:
    """Take the dependency of an added package, which imports from it what it has no longer, of that package's day."""
    missing = failed_import(signature)
    if missing is None or not missing.is_installed or signature.is_of_program:
        return None
    package, dependency = (
        packages_by_module().get(module, module.replace("_", "-")) for module in (signature.package, missing.package)
    )
    has = {*stack.versions, *attempt.choice.versions, *attempt.left_out, *AXES, package}
    if package not in attempt.added or package not in stack.versions or dependency in has:
        return None
    day, found, *_ = of_day(package, stack.versions[package], dependency)
    if dependency not in found:
        return None
    release = found[dependency]
    more = msgspec.structs.replace(
        attempt,
        choice=msgspec.structs.replace(attempt.choice, versions={**attempt.choice.versions, dependency: release}),
        added=(*attempt.added, dependency),
        fixed=(*attempt.fixed, dependency),
    )
    of = f"{package} {stack.versions[package]}, of {day}"
    return Remedy(more, f"{of}, imports what {dependency} has no longer: takes {dependency} {release}, of that day")


def _newer_transformers(signature: Signature, attempt: Attempt, stack: Stack) -> Remedy | None:
    """Take the newest configured transformers of the same major for a program that imports what the one that its project
    pins does not have yet. Its partners go with it."""
    now = stack.versions.get("transformers", "")
    if (
        attempt.choice.stack
        or "transformers" not in attempt.pinned
        or "transformers" in attempt.too_old
        or not _NOT_IN_TRANSFORMERS.search(signature.message)
    ):
        return None
    newer = {
        name: pins["transformers"]
        for name, pins in attempt.stacks.items()
        if _major(pins.get("transformers", "")) == _major(now) and Version(pins["transformers"]) > Version(now)
    }
    if not newer:
        return None
    name = max(newer, key=lambda one: Version(newer[one]))
    pinned = [one for one in attempt.pinned if one not in _PARTNERS]
    kept = (*attempt.fixed, *pinned)
    versions = {one: spec for one, spec in _resolved_anew(attempt).items() if one in kept or one not in _PARTNERS}
    choice = msgspec.structs.replace(attempt.choice, stack=name, versions=versions)
    return Remedy(
        msgspec.structs.replace(attempt, choice=choice, pinned=tuple(pinned)),
        f"its project pins transformers {now}, which has not yet what it imports ({signature.message}): takes {newer[name]} "
        f"(--stack {name})",
    )


def _beyond_its_pin(outcome: Failed, attempt: Attempt, stack: Stack, of_its_day: ReleasesOfItsDay) -> Remedy | None:
    """Take the release of the program's day of a package that its project pins, and that does not take the program's call:
    a file of requirements is forgotten more often than a script."""
    package = package_refusing(outcome.detail).replace("_", "-")
    if package not in attempt.pinned or package in attempt.fixed or package not in stack.versions:
        return None
    day, found, of, _ = of_its_day((package,))
    now, release = stack.versions[package], found.get(package, "")
    if not release or Version(release) <= Version(now):
        return None
    more = msgspec.structs.replace(
        attempt,
        choice=msgspec.structs.replace(attempt.choice, versions=_with_releases(attempt, {package: release})),
        fixed=(*attempt.fixed, package),
        dated=(*attempt.dated, package),
        pinned=tuple(name for name in attempt.pinned if name != package),
    )
    refused = read_signature(outcome.signature).message
    return Remedy(
        more,
        f"its project pins {package} {now}, which does not take its call ({refused}): takes {release}, of {of}, of {day}",
    )


def _newest_with_torch(signature: Signature, suspected: Sequence[str], attempt: Attempt, stack: Stack) -> Remedy | None:
    """Take the newest release of a package whose pin needs a name that torch has lost, unless torch's release is named: that
    for which the pin was made has no build here, else the project's own would have been taken."""
    package = next((name for name in suspected if name != "torch"), "")
    ours = {*attempt.added} & {*attempt.pinned} - {*attempt.fixed}
    if package not in ours or "torch" in attempt.choice.versions or not _NOT_IN_TORCH.search(signature.message):
        return None
    choice = msgspec.structs.replace(attempt.choice, versions={**attempt.choice.versions, package: NEWEST_THAT_FITS})
    more = msgspec.structs.replace(
        attempt, choice=choice, pinned=tuple(name for name in attempt.pinned if name != package)
    )
    now = f"{package} {stack.versions[package]}"
    return Remedy(
        more,
        f"{now}, which its project requires, does not go with torch {stack.versions['torch']} ({signature.message}): takes "
        "its newest release",
    )


def _older_packages(
    signature: Signature, attempt: Attempt, stack: Stack, of_its_day: ReleasesOfItsDay
) -> Remedy | None:
    """Take the releases of the program's day, of the packages that nothing pins; not for a name that the program's own line
    imports from a package whose release stays."""
    if attempt.choice.stack or not set(_PARTNERS) & stack.versions.keys():
        return None
    free = [name for name in (*_PARTNERS, *attempt.added) if name not in (*attempt.fixed, *attempt.pinned)]
    free = [name for name in free if name in stack.versions and not name.startswith("torch")]
    day, found, of, _ = of_its_day(free) if free else OfItsDay("", {})
    older = {name: release for name, release in found.items() if Version(release) < Version(stack.versions[name])}
    missing = failed_import(signature) if signature.is_of_program else None
    lacking = (
        packages_by_module().get(missing.package, missing.package.replace("_", "-")) if missing is not None else ""
    )
    if not older or (lacking in attempt.choice.versions and lacking not in older):
        return None
    choice = msgspec.structs.replace(attempt.choice, versions=_with_releases(attempt, older))
    taken = ", ".join(f"{name} {release}" for name, release in older.items())
    return Remedy(
        msgspec.structs.replace(attempt, choice=choice, fixed=(*attempt.fixed, *free), dated=(*attempt.dated, *older)),
        f"fails with the newest packages ({signature.message}): takes those of {of}, of {day}: {taken}",
    )


def _older_torch(
    signature: Signature, suspected: Sequence[str], attempt: Attempt, stack: Stack, of_its_day: ReleasesOfItsDay
) -> Remedy | None:
    """Take the torch of that day, and with it torchvision's release, unless torch's is named: last, as a program of any age
    mostly goes with it."""
    named = {*attempt.fixed, *attempt.pinned, *attempt.choice.versions}
    if attempt.choice.stack or "torch" in named or not any(name.startswith("torch") for name in suspected):
        return None
    day, found, of, _ = of_its_day(("torch",))
    release = found.get("torch", "")
    if not release or Version(release) >= Version(stack.versions["torch"]):
        return None
    choice = msgspec.structs.replace(attempt.choice, versions=_with_releases(attempt, {"torch": release}))
    return Remedy(
        msgspec.structs.replace(attempt, choice=choice, fixed=(*attempt.fixed, "torch")),
        f"fails with torch {stack.versions['torch']} ({signature.message}): takes {release}, of {of}, of {day}",
    )


def _oldest_allowed(signature: Signature, suspected: Sequence[str], attempt: Attempt, stack: Stack) -> Remedy | None:
    """Take the oldest release that its project allows of the added package that lacks what the program needs: it was written
    with that one, or with one soon after it."""
    package = suspected[0]
    release = attempt.oldest.get(package, "")
    if not release or package in attempt.pinned or Version(release) >= Version(stack.versions.get(package, "0")):
        return None
    choice = msgspec.structs.replace(attempt.choice, versions=_with_releases(attempt, {package: release}))
    more = msgspec.structs.replace(
        attempt, choice=choice, fixed=(*attempt.fixed, package), pinned=(*attempt.pinned, package)
    )
    now = f"{package} {stack.versions[package]}"
    return Remedy(more, f"fails with {now} ({signature.message}): takes {release}, the oldest that its project allows")


def _older_transformers(
    signature: Signature, suspected: Collection[str], attempt: Attempt, stack: Stack
) -> Remedy | None:
    """Take the configured stack with an older transformers for a program that fails by the newest, unless a release is
    named. What was taken from the program's day gives way."""
    now = stack.versions.get("transformers", "")
    attempt = msgspec.structs.replace(
        attempt,
        choice=msgspec.structs.replace(attempt.choice, versions=_without(attempt.dated, attempt.choice.versions)),
    )
    if not now or attempt.choice.stack or "transformers" in attempt.choice.versions:
        return None
    if not {"transformers", "huggingface-hub"} & set(suspected):
        return None
    older = {
        name: pins["transformers"]
        for name, pins in attempt.stacks.items()
        if _major(pins.get("transformers", "")) < _major(now)
    }
    if not older:
        return None
    name = max(older, key=lambda one: _major(older[one]))
    choice = msgspec.structs.replace(attempt.choice, stack=name, versions=_resolved_anew(attempt))
    return Remedy(
        msgspec.structs.replace(attempt, choice=choice),
        f"fails with transformers {now} ({signature.message}): takes {older[name]} (--stack {name})",
    )


def _with_releases(attempt: Attempt, releases: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of an attempt with these releases in every stack. Without the package that is compared, each of
    them would be compared with the configured release."""
    versions = {**_resolved_anew(attempt), **releases}
    return versions if {*AXES} & attempt.choice.versions.keys() else {**attempt.compared, **versions}


def _without(dated: Collection[str], versions: Mapping[str, str]) -> dict[str, str]:
    return {name: spec for name, spec in versions.items() if name not in dated or name not in AXES}


def _resolved_anew(attempt: Attempt) -> dict[str, str]:
    """Return the versions of an attempt for a stack with other packages: those that nothing pins are chosen once more."""
    kept = {*attempt.pinned, *attempt.fixed}
    free = [name for name in attempt.added if name in attempt.choice.versions and name not in kept]
    return {**attempt.choice.versions, **dict.fromkeys(free, NEWEST_THAT_FITS)}


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isdecimal() else 1_000
