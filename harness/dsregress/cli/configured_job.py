"""The job of ``[tool.dsregress.job]``, in the place of options that were not given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dsregress.advice.gpus import card
from dsregress.cli.lines import print_note
from dsregress.cli.options import JobOptions, requested_versions
from dsregress.cli.package_files import packages_of_file
from dsregress.config.job import JobSettings
from dsregress.config.settings import DEFAULT_STACK, Settings
from dsregress.model import AXES
from dsregress.probe.scenario import BASE_VARIANT
from dsregress.run import available_workloads
from dsregress.run.available_workloads import Program
from dsregress.run.cell_matrix import Selection
from dsregress.versions.installed import InstalledPackages, read_packages
from dsregress.versions.releases import is_too_old, known_releases
from dsregress.versions.stack_plans import NEWEST_THAT_FITS

if TYPE_CHECKING:  # what measures takes a second to import
    from dsregress.run.pipeline import Choice
    from dsregress.run.program_remedies import Attempt

#: The place of the job in messages.
WHERE = "[tool.dsregress.job]"

_HINT = f"correct `packages` in {WHERE}"


def configured_program(settings: Settings) -> Program | None:
    """Return the configured program; None if there is none."""
    job = settings.job
    if not job.program:
        return None
    folder = str(Path(settings.root, job.folder).resolve())
    given = Program(line=job.program, folder=folder, ranks=job.ranks, synthetic_data=job.synthetic_data)
    return msgspec.structs.replace(given, gpu=job.card) if job.card else given


def completed_job(job: JobOptions, settings: Settings) -> JobOptions:
    """Return a job with what is configured of it, unless it names a program or files of its own."""
    own = settings.job
    if job.program is None and not job.configs:
        files = tuple(str(Path(settings.root, own.folder, file)) for file in own.config)
        job = msgspec.structs.replace(job, program=configured_program(settings), configs=files)
    named_card = card(own.card, WHERE) if job.card is None and own.card else job.card
    return msgspec.structs.replace(job, card=named_card, ranks=own.ranks if job.ranks is None else job.ranks)


def configured_packages(settings: Settings) -> list[tuple[str, InstalledPackages]]:
    """Return the configured packages by their source: each file, and what is pinned without one. Raise UsageError."""
    found = []
    for file in settings.job.files:
        place = str(Path(settings.root, file))
        found.append((file, packages_of_file(place, name=file, hint=_HINT)))
    if settings.job.pins:
        found.append((WHERE, read_packages("\n".join(settings.job.pins).encode(), WHERE)))
    return found


def with_stack_of_job(settings: Settings) -> tuple[Settings, list[str]]:
    """Return the settings with the job's releases as their stack, unless they have a stack of their own; and lines for the
    user. The releases that are compared are the job's and the newest; the package is DeepSpeed if the job has it."""
    pinned = {name: one for _, found in configured_packages(settings) for name, one in found.versions.items()}
    mine = {name: pinned[name] for name in AXES if name in pinned}
    if not mine or settings.stack != DEFAULT_STACK:
        return settings, []
    older = {}
    for name, release in list(mine.items()):
        if is_too_old(name, release):
            older[name] = release
            del mine[name]
    varied = next((name for name in ("deepspeed", "transformers", "torch") if name in mine), "deepspeed")
    newest = known_releases(varied)[-1]
    release = mine.get(varied, newest)
    before = release if release != newest else known_releases(varied)[-2]
    stack: dict[str, str | tuple[str, ...]] = {
        name: mine.get(name, spec if isinstance(spec, str) else spec[-1]) for name, spec in DEFAULT_STACK.items()
    }
    notes = [
        f"{name} {release} is older than what can be measured: {before if name == varied else stack[name]} takes its place"
        for name, release in older.items()
    ]
    stack[varied] = (before, "latest")
    return msgspec.structs.replace(settings, stack=stack, baseline=before), notes


class ConfiguredWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """The job that a command measures if it names no workload."""

    settings: Settings
    selection: Selection
    added: dict[str, str] = {}  #: package -> spec, besides the stack
    program: Program | None = None  #: of the configured job; None: other workloads are selected, or there is no job

    def attempt(self, choice: Choice) -> Attempt | None:
        """Return the attempt at the job's program: what its files pin stays, the rest is what `init` or its user took."""
        from dsregress.run.program_remedies import Attempt

        if self.program is None:
            return None
        pinned = {
            name: one for file, found in configured_packages(self.settings) for name, one in found.versions.items()
            if file != WHERE
        }  # fmt: skip
        return Attempt(
            program=self.program,
            choice=self._with_releases(choice),
            added=tuple(self.added),
            pinned=tuple(name for name, spec in self.added.items() if spec != NEWEST_THAT_FITS),
            fixed=tuple(name for name in AXES if name in pinned and pinned[name] in self.settings.stack[name]),
            stacks=self.settings.stacks,
        )

    def _with_releases(self, choice: Choice) -> Choice:
        """Return a choice that names the releases that are compared, so that a remedy's release is no further one."""
        stack = self.settings.stack
        varied = next((name for name, spec in stack.items() if not isinstance(spec, str)), "")
        if not varied or choice.stack or choice.pythons or {*AXES} & choice.versions.keys():
            return choice
        versions = {**choice.versions, varied: ",".join(stack[varied])}
        return msgspec.structs.replace(choice, versions=versions, baseline=choice.baseline or self.settings.baseline)


def configured_workload(settings: Settings, selection: Selection) -> ConfiguredWorkload:
    """Return what a command measures that names no workload, or the configured program by its own name: the configured
    job, with its releases and the packages that are added to them. Else, what it selects. Raise UsageError,
    EnvironmentUnavailable."""
    given = configured_program(settings)
    if given is None or _is_about_others(selection, given, settings):
        return ConfiguredWorkload(settings=settings, selection=selection)
    settings, notes = with_stack_of_job(settings)
    for line in notes:
        print_note(line)
    name = available_workloads.chosen_workload(None, given, settings)
    return ConfiguredWorkload(
        settings=settings,
        selection=selection_of_program(selection, name),
        added=requested_versions({}, settings.job.added),
        program=given,
    )


def job_as_tried(job: JobSettings, before: Attempt, after: Attempt) -> JobSettings:
    """Return the job with what remedies changed from one attempt at it to another."""
    versions = {**after.stacks.get(after.choice.stack or "", {}), **after.choice.versions}
    pins = {name: one for name, one in versions.items() if name in AXES and before.choice.versions.get(name) != one}
    own = [one for one in job.packages if one.partition("==")[0] not in pins]
    added = {name: spec for name, spec in after.choice.versions.items() if name not in AXES}
    return msgspec.structs.replace(
        job,
        program=after.program.line,
        packages=(*own, *(f"{name}=={one}" for name, one in pins.items())),
        added=tuple(name if spec == NEWEST_THAT_FITS else f"{name}={spec}" for name, spec in added.items()),
        ranks=after.program.ranks,
        synthetic_data=after.program.synthetic_data,
    )


def _is_about_others(selection: Selection, given: Program, settings: Settings) -> bool:
    """Return True if workloads are selected that are not the configured program."""
    if not selection.scenarios:
        return bool(selection.variants)
    if not available_workloads.launches(settings).keys() >= {*selection.scenarios}:
        return True
    return {*selection.scenarios} != {available_workloads.chosen_workload(None, given, settings)}


def selection_of_program(selection: Selection, name: str) -> Selection:
    """Select the program unchanged, in sim, unless the selection has other values."""
    return Selection(
        scenarios=selection.scenarios or (name,),
        variants=selection.variants or (BASE_VARIANT,),
        devices=selection.devices or ("sim",),
    )
