"""The first attempt at a program that a command measures; see `dsregress.run.first_attempt`."""

from __future__ import annotations

import functools

import msgspec

from dsregress.cli import options
from dsregress.cli.configured_job import selection_of_program
from dsregress.cli.lines import print_note
from dsregress.cli.progress import Progress
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.run import available_workloads, first_attempt, pipeline, targets
from dsregress.run.available_workloads import Program
from dsregress.run.first_attempt import TriedAttempt
from dsregress.run.program_remedies import Attempt
from dsregress.run.watch import Watch
from dsregress.versions import stack_plans


def selecting_program(attempt: Attempt, settings: Settings) -> pipeline.Choice:
    """Return the choice of an attempt with its program selected, which has a name from now on. Raise UsageError,
    EnvironmentUnavailable."""
    name = available_workloads.chosen_workload(None, attempt.program, settings)
    return msgspec.structs.replace(attempt.choice, selection=selection_of_program(attempt.choice.selection, name))


def led_by_its_first(choice: pipeline.Choice, settings: Settings, installer: Installer) -> pipeline.Choice:
    """Return the choice with the first of several releases that are named of the package with a configured list as the
    baseline: a configured one may not run the program. Raise UsageError."""
    package = targets.varied_package(settings)
    if choice.baseline is not None or choice.pythons or package not in choice.versions:
        return choice
    named = stack_plans.resolve(package, choice.versions[package], installer.published)
    return msgspec.structs.replace(choice, baseline=f"{package}=={named[0]}") if len(named) > 1 else choice


def completed(attempt: Attempt, settings: Settings, installer: Installer) -> Attempt:
    """Return the attempt with what the program's project says of its packages. Raise UsageError, EnvironmentUnavailable."""
    device = selecting_program(attempt, settings).selection.devices[0]
    return first_attempt.completed_attempt(attempt, device, settings, installer, print_note)


def remedied(attempt: Attempt, settings: Settings, installer: Installer, watch: Watch) -> TriedAttempt:
    """Return the attempt with the remedies that runs of its baseline ask for."""
    plan = functools.partial(_plan, settings=settings, installer=installer)
    return first_attempt.remedied_attempt(attempt, plan, settings, installer, watch)


def attempted(
    program: Program, choice: pipeline.Choice, settings: Settings, installer: Installer
) -> tuple[Program, pipeline.Choice]:
    """Return a program, and the choice of its stacks, as a first attempt in sim leaves them."""
    attempt = completed(Attempt(program=program, choice=choice), settings, installer)
    with Progress(brief=True) as progress:
        attempt = remedied(attempt, settings, installer, progress).attempt
    return attempt.program, attempt.choice


def attempted_between(
    program: Program | None, package: str, release: str, searched: options.SearchedPackage, settings: Settings
) -> tuple[Program | None, options.SearchedPackage]:
    """Return a program, and the stack around a package of which releases are searched, as a first attempt in sim with
    ``release``, the older end, leaves them; unchanged without a program, or if the package is fixed, which is refused."""
    if program is None or package in searched.fixed:
        return program, searched
    choice = pipeline.Choice(
        versions={package: release, **searched.fixed}, stack=searched.stack, baseline=f"{package}=={release}"
    )
    program, choice = attempted(program, choice, settings, pipeline.new_installer(settings))
    unnamed = {package, targets.varied_package(settings)} - searched.fixed.keys()
    fixed = {name: spec for name, spec in choice.versions.items() if name not in unnamed}
    return program, msgspec.structs.replace(searched, stack=choice.stack, fixed=fixed, left_out=choice.left_out)


def _plan(attempt: Attempt, *, settings: Settings, installer: Installer) -> pipeline.Planned:
    return pipeline.plan_run(settings, selecting_program(attempt, settings), installer)
