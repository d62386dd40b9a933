"""The remedy for a first run of a program that could not be measured: what the line about it tells its user to do, carried
out where that is certain. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from dsregress.advice.other_packages import packages_to_try
from dsregress.model import AXES, Failed, Outcome, Signature, Stack, read_signature
from dsregress.probe.border.masking import masked_launch_line
from dsregress.run.available_workloads import Program
from dsregress.run.pipeline import Choice
from dsregress.versions.stack_plans import NEWEST_THAT_FITS
from dsregress.wording.quantities import listing

#: The errors whose line says what to do (`dsregress.programs.launch.failure_causes`).
_SAYS_WHAT_TO_DO = ("CannotRun", "NotHere")

_WITH = re.compile(r"--with ([A-Za-z0-9][\w.-]*)")
_PLACEHOLDER = "PACKAGE"
_RANKS = re.compile(r"give --ranks (\d{1,3})\b")
_PATH = re.compile(r"write PYTHONPATH=(\S+) before the line")
_NO_RANK = "asks for its rank, and no launcher gives it one"
_PYTHON = re.compile(r"(?<!\S)(?:\S*/)?python[\d.]*(?:\s+-[uBOsSEI])*\s+(?=\S)")


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A way to measure a program."""

    program: Program
    choice: Choice
    added: tuple[str, ...] = ()  #: packages that its user did not name
    left_out: tuple[str, ...] = ()  #: of those, the ones that cannot be installed
    stacks: Mapping[str, Mapping[str, str]] = {}  #: the configured ones by name, of which another may be taken


class Remedy(NamedTuple):
    """Another attempt, and a line that says in what it differs."""

    attempt: Attempt
    line: str


def remedy_of(outcome: Outcome, attempt: Attempt, stack: Stack) -> Remedy | None:
    """Return what to try after an attempt ended so on ``stack``; None if no remedy is certain, or it passed."""
    if not isinstance(outcome, Failed):
        return None
    signature = read_signature(outcome.signature)
    if outcome.stage == "install":
        return _left_out(outcome, attempt)
    if signature.error in _SAYS_WHAT_TO_DO:
        found = (remedy(signature.message, attempt) for remedy in _REMEDIES)
        return next((one for one in found if one is not None), None)
    return _older_transformers(signature, outcome.stage, attempt, stack)


def _packages(said: str, attempt: Attempt) -> Remedy | None:
    has = {*attempt.choice.versions, *attempt.left_out, *AXES, _PLACEHOLDER}
    names = [name for name in dict.fromkeys(_WITH.findall(said)) if name.lower() not in has and name not in has]
    if not names:
        return None
    versions = {**attempt.choice.versions, **dict.fromkeys(names, NEWEST_THAT_FITS)}
    choice = msgspec.structs.replace(attempt.choice, versions=versions)
    more = msgspec.structs.replace(attempt, choice=choice, added=(*attempt.added, *names))
    return Remedy(more, f"adds {listing(names)}, which it lacks when it runs")


def _rows(said: str, attempt: Attempt) -> Remedy | None:
    if "--synthetic-data" not in said or attempt.program.synthetic_data:
        return None
    what = re.sub(r": give --synthetic-data.*", "", said.partition(": ")[2])
    return _changed(attempt, f"{what}: its rows are made up (--synthetic-data)", synthetic_data=True)


def _ranks(said: str, attempt: Attempt) -> Remedy | None:
    found = _RANKS.search(said)
    if found is None or attempt.program.ranks is not None:
        return None
    return _changed(attempt, f"runs as {found[1]} ranks, which it starts itself (--ranks)", ranks=int(found[1]))


def _path(said: str, attempt: Attempt) -> Remedy | None:
    found, line = _PATH.search(said), attempt.program.line
    if found is None:
        return None
    path = f"PYTHONPATH={found[1]}"
    if f"{path} " in line or f"{path}:" in line:
        return None
    extended = line.replace("PYTHONPATH=", f"{path}:", 1) if "PYTHONPATH=" in line else f"{path} {line}"
    return _changed(attempt, f"runs with {path}, as it imports modules of its own from there", line=extended)


def _launcher(said: str, attempt: Attempt) -> Remedy | None:
    line = attempt.program.line
    launched = _PYTHON.sub("torchrun ", line, count=1)
    if _NO_RANK not in said or launched == line:
        return None
    return _changed(attempt, f"is started by {masked_launch_line(launched)}, as it asks for its rank", line=launched)


_REMEDIES: tuple[Callable[[str, Attempt], Remedy | None], ...] = (_packages, _rows, _ranks, _path, _launcher)


def _changed(attempt: Attempt, said: str, /, **fields: object) -> Remedy:
    program = msgspec.structs.replace(attempt.program, **fields)
    return Remedy(msgspec.structs.replace(attempt, program=program), said)


def _left_out(outcome: Failed, attempt: Attempt) -> Remedy | None:
    """Leave out a package that was added for the program and cannot be installed here."""
    said = f"{outcome.signature} {outcome.detail}".lower()
    names = [
        name
        for name in attempt.added
        if name in attempt.choice.versions and re.search(rf"(?<![\w-]){re.escape(name.lower())}(?![\w-])", said)
    ]
    if not names:
        return None
    versions = {name: spec for name, spec in attempt.choice.versions.items() if name != names[0]}
    choice = msgspec.structs.replace(attempt.choice, versions=versions)
    less = msgspec.structs.replace(attempt, choice=choice, left_out=(*attempt.left_out, names[0]))
    return Remedy(less, f"leaves out {names[0]}, which cannot be installed here: {outcome.signature}")


def _older_transformers(signature: Signature, stage: str, attempt: Attempt, stack: Stack) -> Remedy | None:
    """Take the configured stack with an older transformers for a program that fails by the newest, unless a release is
    named."""
    now = stack.versions.get("transformers", "")
    if not now or attempt.choice.stack or "transformers" in attempt.choice.versions:
        return None
    if not {"transformers", "huggingface-hub"} & set(packages_to_try(signature, stage, stack, ())):
        return None
    older = {
        name: pins["transformers"]
        for name, pins in attempt.stacks.items()
        if _major(pins.get("transformers", "")) < _major(now)
    }
    if not older:
        return None
    name = max(older, key=lambda one: _major(older[one]))
    choice = msgspec.structs.replace(attempt.choice, stack=name)
    return Remedy(
        msgspec.structs.replace(attempt, choice=choice),
        f"fails with transformers {now} ({signature.message}): takes {older[name]} (--stack {name})",
    )


def _major(version: str) -> int:
    first = version.partition(".")[0]
    return int(first) if first.isdecimal() else 1_000
