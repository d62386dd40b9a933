"""The job of ``[tool.dsregress.job]``, in the place of options that were not given."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dsregress.advice.gpus import card
from dsregress.cli.lines import print_note
from dsregress.cli.named_files import read_named
from dsregress.cli.options import JobOptions, requested_versions
from dsregress.config.settings import DEFAULT_STACK, Settings
from dsregress.model import AXES
from dsregress.probe.scenario import BASE_VARIANT
from dsregress.run import available_workloads
from dsregress.run.available_workloads import Program
from dsregress.run.cell_matrix import Selection
from dsregress.versions.installed import InstalledPackages, read_packages
from dsregress.versions.releases import OLDEST, known_releases, parsed_version

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
        found.append((file, read_packages(read_named(place, hint=_HINT), file)))
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
    notes = []
    for name, release in list(mine.items()):
        parsed, oldest = parsed_version(release), parsed_version(OLDEST[name])
        if parsed is not None and oldest is not None and parsed < oldest:
            notes.append(f"{name} {release} is older than what can be measured: {DEFAULT_STACK[name]} takes its place")
            del mine[name]
    varied = next((name for name in ("deepspeed", "transformers", "torch") if name in mine), "deepspeed")
    newest = known_releases(varied)[-1]
    release = mine.get(varied, newest)
    before = release if release != newest else known_releases(varied)[-2]
    stack: dict[str, str | tuple[str, ...]] = {
        name: mine.get(name, spec if isinstance(spec, str) else spec[-1]) for name, spec in DEFAULT_STACK.items()
    }
    stack[varied] = (before, "latest")
    return msgspec.structs.replace(settings, stack=stack, baseline=before), notes


def configured_workload(settings: Settings, selection: Selection) -> tuple[Settings, Selection, dict[str, str]]:
    """Return the settings and the selection of a command that names no workload: those of the configured job, with the
    packages that are added to its stack. Without a job, as they are. Raise UsageError, EnvironmentUnavailable."""
    given = configured_program(settings)
    if given is None or selection.scenarios or selection.variants:
        return settings, selection, {}
    settings, notes = with_stack_of_job(settings)
    for line in notes:
        print_note(line)
    name = available_workloads.chosen_workload(None, given, settings)
    return settings, selection_of_program(selection, name), requested_versions({}, settings.job.added)


def selection_of_program(selection: Selection, name: str) -> Selection:
    """Select the program unchanged, in sim, unless the selection has other values."""
    return Selection(
        scenarios=selection.scenarios or (name,),
        variants=selection.variants or (BASE_VARIANT,),
        devices=selection.devices or ("sim",),
    )
