"""The first attempt at a program, by its launch line alone: what its messages would tell its user to do is done, where that
is certain, and said in a line each.

What its project's files say is done before anything is built (`program_stack`). Then the baseline alone is run, as long as
its outcome has a remedy (`program_remedies`).
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.errors import UsageError
from dsregress.model import AXES, Cell, Failed, Result, read_signature
from dsregress.probe import launch_line, oldest_torch
from dsregress.run import pipeline, program_stack
from dsregress.run.cpu_torch import is_torch_for_here
from dsregress.run.kept_attempts import AttemptNotes
from dsregress.run.program_remedies import (
    Attempt,
    OfItsDay,
    line_searching,
    remedy_of,
    without_what_cannot_be_had,
)
from dsregress.run.program_stack import supported_release
from dsregress.run.project_reasons import with_project_reason
from dsregress.run.refusals import fails_with_each
from dsregress.run.releases_of_day import (
    day_of_last_commit,
    newest_of,
    releases_of_day,
    releases_that_go_together,
)
from dsregress.run.session import open_session
from dsregress.run.targets import varied_package
from dsregress.run.watch import Watch
from dsregress.store.reuse import reusable
from dsregress.versions.releases import parsed_version
from dsregress.versions.stack_plans import NEWEST_THAT_FITS, StackPlan

#: More remedies than a program needs that can be measured.
_MOST_REMEDIES = 8

#: Packages of one remedy that are left out, one by one, as no release goes with the others.
_MOST_LEFT_OUT = 6

#: Errors of packages that do not go together.
_OF_AN_IMPORT = ("ImportError", "ModuleNotFoundError")

#: Seconds after which no further remedy is tried: most programs that can be measured take less than half of it.
_MOST_TIME = 900.0


class TriedAttempt(NamedTuple):
    """The last attempt, and the result of its baseline if it says nothing of a release."""

    attempt: Attempt
    result: Result | None


#: Plans the stacks and cells of an attempt.
Plan = Callable[[Attempt], pipeline.Planned]


def completed_attempt(
    attempt: Attempt, device: str, settings: Settings, installer: Installer, note: Callable[[str], None]
) -> Attempt:
    """Return the attempt with what the program's project says of its packages. Raise UsageError, EnvironmentUnavailable."""
    program = attempt.program
    found = program_stack.complete_choice(
        attempt.choice, launch_line.parse(program.line), Path(program.folder), device, settings, installer
    )
    for line in found.notes:
        if line not in attempt.said:
            note(f"{program.name}: {line}")
    line = program.line
    for folder in found.searched:
        line = line_searching(line, folder)
    return msgspec.structs.replace(
        attempt,
        program=msgspec.structs.replace(program, line=line),
        choice=found.choice,
        added=(*attempt.added, *found.added),
        pinned=(*attempt.pinned, *found.pinned),
        others=found.others,
        oldest={**attempt.oldest, **found.oldest},
        too_old={**attempt.too_old, **found.too_old},
        addressed={**attempt.addressed, **found.addressed},
        said=(*attempt.said, *found.notes),
        fixed=(*attempt.fixed, *_named_by_user(attempt)),
        undated=(*attempt.undated, *(name for name in _named_by_user(attempt) if _is_open(name, attempt))),
        stacks=settings.stacks,
        compared=_compared(settings),
    )


def _named_by_user(attempt: Attempt) -> list[str]:
    """Return the packages whose release the user named: a completed attempt has others in its choice, too."""
    ours = {*attempt.added, *attempt.pinned, *attempt.fixed}
    return [name for name in attempt.choice.versions if name not in ours]


def _is_open(name: str, attempt: Attempt) -> bool:
    return attempt.choice.versions[name] == NEWEST_THAT_FITS


def _compared(settings: Settings) -> dict[str, str]:
    """Return the package that is compared if nothing is named, with its configured releases."""
    package = varied_package(settings)
    spec = settings.stack.get(package, "")
    return {package: spec if isinstance(spec, str) else ",".join(spec)} if spec else {}


def remedied_attempt(
    attempt: Attempt, plan: Plan, settings: Settings, installer: Installer, watch: Watch
) -> TriedAttempt:
    """Return the attempt with the remedies that runs of its baseline ask for. Every run is stored, and what it came to is
    kept for the next command. Raise as `Session.measure`."""
    notes = AttemptNotes(attempt, settings, watch.note)
    dated = [name for name in attempt.fixed if name not in attempt.undated]  # a package alone names no day
    tried = _remedied(_begun(attempt, plan, notes), dated, plan, settings, installer, watch, notes)
    notes.keep(tried.attempt)
    return tried


def _begun(attempt: Attempt, plan: Plan, notes: AttemptNotes) -> tuple[Attempt, pipeline.Planned]:
    """Return the attempt to begin with, and its plan: where it came to before, unless that cannot be had any more."""
    kept = notes.kept()
    with contextlib.suppress(UsageError):
        if kept is not None:
            begun = kept.attempt, plan(kept.attempt)
            for line in kept.lines:
                notes.note(line)
            return begun
    return attempt, plan(attempt)


def _remedied(
    begun: tuple[Attempt, pipeline.Planned],
    named: Collection[str],
    plan: Plan,
    settings: Settings,
    installer: Installer,
    watch: Watch,
    notes: AttemptNotes,
) -> TriedAttempt:
    note = notes.note
    began, (attempt, planned), result = time.monotonic(), begun, None
    newest: tuple[Attempt, Result] | None = None  # before releases of the program's day were taken
    for _ in range(_MOST_REMEDIES):
        cells = _tried_first(planned)
        if not cells:
            break
        result = result or _result(cells, planned, settings, installer, watch)
        of_its_day = functools.partial(
            _of_its_day,
            folder=Path(attempt.program.folder),
            named=named,
            base=planned.stacks,
            settings=settings,
            installer=installer,
        )
        of_release = functools.partial(_of_release, installer=installer)
        found = remedy_of(result.outcome, attempt, planned.stacks.baseline, of_its_day, of_release)
        if found is None and newest is not None and _gets_less_far(result, newest[1]):
            note(f"{attempt.program.name}: those do not go together here: keeps the newest, with which it gets further")
            return TriedAttempt(newest[0], None)
        if found is None:
            outcome = with_project_reason(result.outcome, attempt, planned.stacks.baseline, of_its_day)
            result = msgspec.structs.replace(result, outcome=outcome)
            says_nothing = reusable([result], 0) is None or fails_with_each(result, planned.stacks.stacks)
            return TriedAttempt(attempt, result if says_nothing else None)
        if time.monotonic() - began > _MOST_TIME:
            note(f"{attempt.program.name}: after {_MOST_TIME / 60:.0f} min no further remedy is tried: {found.line}")
            return TriedAttempt(attempt, result)
        if found.attempt.dated != attempt.dated and newest is None:
            newest = attempt, result
        before, (attempt, line) = attempt, found
        note(f"{attempt.program.name}: {line}")
        possible = None
        try:
            if _may_lack_more(attempt, before):
                attempt = completed_attempt(attempt, cells[0].device, settings, installer, note)
            possible = _possible(attempt, before, plan, note)
        except UsageError as error:  # what its project says does not go with it
            note(f"{attempt.program.name}: that cannot be had: {error.what}")
        if possible is None:
            another = _without_packages_of(attempt, before)
            if another is None:
                return TriedAttempt(before, result)
            attempt = another
        else:
            (attempt, planned), result = possible, None
        if newest is None:  # else the newest releases may be better
            notes.keep(attempt)
    return TriedAttempt(attempt, None)


def _gets_less_far(result: Result, before: Result) -> bool:
    """Return True if a program fails to import what it used, and failed later in another run."""
    outcomes = (result.outcome, before.outcome)
    fails = [isinstance(one, Failed) and read_signature(one.signature).error in _OF_AN_IMPORT for one in outcomes]
    return fails == [True, False] and isinstance(before.outcome, Failed)


def _may_lack_more(attempt: Attempt, before: Attempt) -> bool:
    """Return True if a remedy changes the line, which may reach more of the program's files, or the transformers, of which
    another one may not bring what the program imports: rich comes with transformers 5 alone."""
    then, now = before.choice, attempt.choice
    return attempt.program.line != before.program.line or (then.stack, then.versions.get("transformers")) != (
        now.stack,
        now.versions.get("transformers"),
    )


def _without_packages_of(attempt: Attempt, before: Attempt) -> Attempt | None:
    """Return the attempt before a remedy that cannot be had, without what that added, so that another one is looked for;
    None if it added nothing."""
    added = (name for name in attempt.choice.versions if name not in {*before.choice.versions, *AXES})
    new = tuple(name for name in added if name not in before.left_out)
    return msgspec.structs.replace(before, left_out=(*before.left_out, *new)) if new else None


def _possible(
    attempt: Attempt, before: Attempt, plan: Plan, note: Callable[[str], None]
) -> tuple[Attempt, pipeline.Planned] | None:
    """Return the attempt that a remedy asks for, and its plan; without the packages of which no release goes with the
    others. None if there is no such attempt: the program ends as it did before."""
    for _ in range(_MOST_LEFT_OUT):
        try:
            return attempt, plan(attempt)
        except UsageError as error:
            less = without_what_cannot_be_had(attempt, before, error.what)
            if less is None:
                note(f"{attempt.program.name}: that cannot be had: {error.what}")
                return None
            attempt, line = less
            note(f"{attempt.program.name}: {line}")
    return None


def _of_its_day(
    packages: Collection[str],
    folder: Path,
    named: Collection[str],
    base: StackPlan,
    settings: Settings,
    installer: Installer,
) -> OfItsDay:
    """Return the releases that can be measured here, of the day of the last commit or of the releases that are named,
    whichever is earlier."""
    python = base.baseline.python
    compared = {
        package: {one.versions[package] for one in base.stacks if parsed_version(one.versions.get(package, ""))}
        for package in named
    }
    days = ((day_of_last_commit(folder, installer), "its last commit"), newest_of(compared, installer))
    day, of = min((one for one in days if one[0]), default=("", ""))
    found = releases_of_day(day, packages, installer) if day else {}
    torch, unbuilt = found.get("torch", ""), ""
    if torch and oldest_torch.too_old(torch, "sim"):
        del found["torch"]
    elif torch and not is_torch_for_here(torch, python, installer):
        unbuilt = found.pop("torch")
    found = {name: supported_release(name, release) for name, release in found.items()}
    return OfItsDay(day, releases_that_go_together(found, base.baseline, settings, installer), of, unbuilt)


def _of_release(package: str, version: str, dependency: str, installer: Installer) -> OfItsDay:
    """Return the release of a dependency on the day on which a release of a package was uploaded."""
    day, of = newest_of({package: [version]}, installer)
    return OfItsDay(day, releases_of_day(day, [dependency], installer) if day else {}, of)


def _tried_first(planned: pipeline.Planned) -> list[Cell]:
    """Return the cells that tell whether the program can be measured: the baseline's."""
    return [cell for cell in planned.matrix.cells if cell.stack.id == planned.stacks.baseline.id][:1]


def _result(
    cells: list[Cell], planned: pipeline.Planned, settings: Settings, installer: Installer, watch: Watch
) -> Result:
    with open_session(settings, (), watch, installer, planned.stacks.existing) as opened:
        return opened.measure(cells, baseline=planned.stacks.baseline, rounds=0)[-1]
