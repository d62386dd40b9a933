"""``regress``: measure stacks against a baseline and report what differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click
import msgspec

from dsregress.cli import options, program_attempts
from dsregress.cli.comparison_output import write_reports
from dsregress.cli.configured_job import ConfiguredWorkload, configured_workload, job_as_tried
from dsregress.cli.interim_findings import InterimFindings
from dsregress.cli.lines import print_text
from dsregress.cli.progress import Progress, duration_text
from dsregress.config.settings import Settings, selecting
from dsregress.envs.installer import Installer
from dsregress.errors import EXIT_NOTHING_MEASURED, EXIT_OK, HarnessError, UsageError
from dsregress.model import AXES, Cell, Result
from dsregress.report.interim import interim_lines
from dsregress.report.repository_files import job_table
from dsregress.run import pipeline
from dsregress.run.across_releases import regress_across
from dsregress.run.available_workloads import Program
from dsregress.run.cell_matrix import Selection
from dsregress.run.checkout_stacks import Checkout, with_workloads
from dsregress.run.commit_builds import known_lock, source_of
from dsregress.run.eta import GUESSED_STACK_S, expected_s, guessed_s
from dsregress.run.program_remedies import Attempt
from dsregress.run.project_requirements import name_of_project
from dsregress.run.targets import disk_need_here
from dsregress.store import Store
from dsregress.wording.quantities import plural


class WantedWorkloads(msgspec.Struct, frozen=True, kw_only=True):
    """The workloads that are measured: those of a selection, of a named one, or a program."""

    selection: Selection
    named: tuple[str, ...]
    program: Program | None
    as_given: bool  #: without what its project and its first run ask for
    checkout: Checkout | None
    then: str | None  #: a line that goes on from the files of the program


#: The branch of a pull request.
_AGAINST = "origin/main"


def _given_checkout(*, source: str | None, against: str | None) -> Checkout | None:
    """Return the checkout that is measured. Raise UsageError."""
    if source is None:
        if against is not None:
            raise UsageError("needs --source", where="--against", hint="give --source PATH")
        return None
    package = name_of_project(Path(source))
    if not package:
        hint = "name the root of a project with a pyproject.toml or a setup.py"
        raise UsageError(f"{source} builds no package that has a name", where="--source", hint=hint)
    return Checkout(folder=source, package=package, against=against or _AGAINST)


class WantedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which workloads are measured."""

    timing: options.TimingOptions
    fresh: bool
    explain: bool | None  #: None: as configured
    dry_run: bool
    executor: options.ExecutorOptions
    results: str | None


@click.command("regress")
@options.stack_options
@options.as_of_option
@options.grouped(
    "wanted",
    WantedWorkloads,
    options.selection_options,
    click.option(
        "--select",
        "named",
        multiple=True,
        metavar="NAME",
        help="A named selection of the configuration, e.g. reported. Repeatable. One that has the name of a stack runs on "
        "that stack.",
    ),
    options.program_options,
    click.option(
        "--as-given",
        is_flag=True,
        help="Run the program as it is given: add no packages, take no releases that its project pins, and make up no data.",
    ),
    options.grouped(
        "checkout",
        _given_checkout,
        click.option(
            "--source",
            metavar="PATH",
            help="Measure a framework's working tree, with what is not committed, against the commit that it comes from: a "
            "pull request of DeepSpeed, TRL, accelerate, ...",
        ),
        click.option(
            "--against",
            metavar="BRANCH",
            help=f"With --source: the branch whose last common commit it is compared with. Default: {_AGAINST}.",
        ),
    ),
    click.option(
        "--then",
        metavar="LINE",
        help="A second line that goes on from the files which --program writes, such as a checkpoint. It runs with each "
        "release on the files of each.",
    ),
)
@options.grouped(
    "run",
    WantedRun,
    options.timing_options,
    click.option("--fresh", is_flag=True, help="Measure everything again, even if results are stored."),
    click.option(
        "--explain/--no-explain",
        default=None,
        help="Show the lines of code that hold the memory of each finding. Default: yes, except for long simulations.",
    ),
    click.option("--dry-run", is_flag=True, help="Print the cells and the estimated time; run nothing."),
    options.building_executor_options,
    options.results_option,
)
@options.fail_on_option(options.FAIL_ON_HELP)
@options.report_options
def regress_command(
    stacks: options.StackOptions,
    as_of: str | None,
    wanted: WantedWorkloads,
    run: WantedRun,
    fail_on: tuple[str, ...] | None,
    files: options.ReportFiles,
) -> int:
    """Measure stacks against a baseline and report what differs.

    Builds an isolated environment for each stack, trains the selected scenarios in it, stores each run in the results
    folder, and compares the runs. Stored results are reused. Without options, it runs the job of [tool.dsregress] in
    pyproject.toml, which `init` writes; without one, its stacks and scenarios.

    \b
    Examples:
      dsregress regress --deepspeed 0.15.0,0.16.4,0.16.8        three releases against the configured baseline
      dsregress regress --deepspeed '>=0.16,<0.17'              every release in a range
      dsregress regress --baseline 0.16.8 --deepspeed latest    is upgrading safe?
      dsregress regress --transformers '4.49.*,latest'          compare releases of another package, DeepSpeed fixed
      dsregress regress --with trl=0.23.0,0.24.0                compare releases of any package
      dsregress regress --deepspeed 0.16.8 --torch 2.4.1 --transformers 4.37.2    pin the stack of an older program
      dsregress regress --program 'torchrun train.py --model qwen' --ranks 8 --deepspeed 0.16.4,0.16.8 --with trl=0.24.0
      dsregress regress --program 'python train.py' --then 'python train.py --resume' --transformers 4.57.6,5.24.0
      dsregress regress --scenario 'llama*' --variant 'zero_stage=*' --device cpu
      dsregress regress --select reported                       the reported systems, by their own code
      dsregress regress --select llamafactory-6800              a bug report's job on the report's versions
      dsregress regress --python /opt/conda/envs/rlhf           an existing environment, unchanged
      dsregress regress --python envs/old --python envs/new     two of them; the first is the baseline
      dsregress regress --python envs/old --deepspeed latest    an existing environment against a built one
      dsregress regress --explain                               explain long simulations too, such as the 70B
      dsregress regress --as-of 2025-02-20 --deepspeed latest   what that day's newest stack did, knowing nothing later
      dsregress regress --executor ray --ray-address head:6379  on all nodes of a cluster: see docs/scale-out.md
      dsregress regress --source . --against origin/main        a framework's pull request: this checkout and its merge base
      dsregress regress --json out.json --fail-on memory,crash  for CI: exit code 1 for memory and crashes only
    """
    settings = options.load_settings(
        results=run.results, fail_on=fail_on, timing=run.timing, executor=run.executor, as_of=as_of
    )
    job = ConfiguredWorkload(settings=settings, selection=wanted.selection)
    if wanted.named:
        _check_alone(wanted.selection, wanted.program)
        settings, stacks = _selected(wanted.named, settings, stacks)
    second = _second_line(wanted)
    if wanted.program is None and not wanted.named:
        job = configured_workload(settings, wanted.selection)
        settings = job.settings
        stacks = msgspec.structs.replace(stacks, versions={**job.added, **stacks.versions})
        if wanted.checkout is not None:
            settings = with_workloads(settings, wanted.checkout)
    choice = msgspec.structs.replace(
        stacks.choice(), selection=job.selection, checkout=wanted.checkout, fresh=run.fresh, explain=run.explain
    )
    installer = pipeline.new_installer(settings)
    attempt = job.attempt(choice) if wanted.checkout is None else None
    choice = choice if attempt is None else attempt.choice
    tried: Result | None = None
    if wanted.program is not None:
        choice = program_attempts.led_by_its_first(choice, settings, installer)
        attempt = Attempt(program=wanted.program, choice=choice)
        attempt = attempt if wanted.as_given else program_attempts.completed(attempt, settings, installer)
        choice = program_attempts.selecting_program(attempt, settings)
    planned = pipeline.plan_run(settings, choice, installer)
    if run.dry_run:
        _print_plan(planned, settings)
        _print_disk(planned, settings, installer)
        return EXIT_OK
    with Progress() as progress:
        for line in planned.stacks.notes:
            progress.note(line)
        if planned.stacks.added:
            progress.note(
                f"{planned.stacks.added} is measured too, as the configured baseline: --baseline names another"
            )
        for skipped in planned.matrix.skipped:
            progress.note(f"skipped: {skipped.workload}: {skipped.reason}")
        if not planned.matrix.cells:
            progress.note("nothing was measured: all selected workloads are skipped on this machine")
            return EXIT_NOTHING_MEASURED
        if attempt is not None and not wanted.as_given:
            given = attempt
            attempt, tried = program_attempts.remedied(attempt, settings, installer, progress)
            if job.program is not None and attempt != given:
                kept = job_table(job_as_tried(settings.job, given, attempt)).splitlines()
                progress.note(f"to run it like that at once: {'; '.join(kept)}")
            choice = program_attempts.selecting_program(attempt, settings)
            planned = pipeline.plan_run(settings, choice, installer)
        if second and attempt is not None:
            comparison = regress_across(settings, choice, attempt.program, second, installer, progress)
        else:
            watch = InterimFindings(progress, planned.matrix.cells, _interim_lines(settings, planned))
            unnamed = wanted.program is not None and not wanted.as_given and not {*AXES} & stacks.versions.keys()
            comparison = pipeline.regress(settings, choice, planned, installer, watch, tried, ends_first=unnamed)
    return write_reports(comparison, settings, files)


def _second_line(wanted: WantedWorkloads) -> str:
    """Return the launch line that goes on from the files of the program; empty if there is none. Raise UsageError."""
    if wanted.then is None:
        return ""
    if wanted.program is None:
        raise UsageError("needs --program", where="--then", hint="it goes on from the files of that program")
    return options.launch_in(wanted.program.folder, wanted.then)


def _interim_lines(settings: Settings, planned: pipeline.Planned) -> Callable[[Sequence[Cell]], Sequence[str]]:
    """Return what tells the problems of the stored results of some cells."""
    store, baseline = Store(settings.results), planned.stacks.baseline.id

    def problem_lines(cells: Sequence[Cell]) -> Sequence[str]:
        runs = [run for cell in cells if (run := store.last_run(cell)) is not None]
        try:
            return interim_lines(pipeline.compare_results(runs, baseline, settings, store))
        except HarnessError:  # the report of the whole run says it
            return []

    return problem_lines


def _check_alone(selection: Selection, program: Program | None) -> None:
    """Raise UsageError if workloads are selected besides a named selection."""
    if selection.scenarios or selection.variants or program is not None:
        what = "cannot be combined with --scenario, --variant or --program"
        raise UsageError(what, where="--select", hint="give one of the two")


def _selected(
    names: Sequence[str], settings: Settings, stacks: options.StackOptions
) -> tuple[Settings, options.StackOptions]:
    """Return the settings with named selections, and the stack of their name if there is one and no other was given. Raise
    UsageError for selections of several stacks."""
    settings = selecting(settings, names)
    if stacks.stack is not None or stacks.pythons:
        return settings, stacks
    wanted = {name if name in settings.stacks else None for name in names}
    if len(wanted) > 1:
        what = f"{' and '.join(dict.fromkeys(names))} run on different stacks"
        raise UsageError(what, where="--select", hint="give --stack, or run one after the other")
    return settings, msgspec.structs.replace(stacks, stack=wanted.pop())


def _print_disk(planned: pipeline.Planned, settings: Settings, installer: Installer) -> None:
    """Print the disk space that the environments will take, if they are built here."""
    if settings.executor != "local":
        return
    stacks = {cell.environment_stack.id: cell.environment_stack for cell in planned.matrix.cells}
    locked = [
        known_lock(stack, settings, source_of(stack, planned.sources)) for stack in stacks.values() if not stack.existed
    ]
    need = disk_need_here(settings, installer, [lock for lock in locked if lock is not None])
    if need.text:
        print_text(need.text)
    if unknown := sum(lock is None for lock in locked):
        print_text(f"{plural(unknown, 'environment')} to build of unknown size: not resolved yet")
    for line in need.notes:
        print_text(line)


def _print_plan(planned: pipeline.Planned, settings: Settings) -> None:
    cells = planned.matrix.cells
    store = Store(settings.results)
    known = expected_s(cells, store)
    expected = {**guessed_s(cells, known, store), **known}
    for cell in cells:
        print_text(cell.id)
    for skipped in planned.matrix.skipped:
        print_text(f"skipped: {skipped.workload}: {skipped.reason}")
    unknown = sum(cell.workload not in known for cell in cells)
    stacks = len(planned.stacks.stacks)
    text = f"{len(cells)} cells on {stacks} stacks"
    if any(cell.workload not in expected for cell in cells):
        print_text(f"{text}; duration unknown: no program has run here yet")
        return
    if cells:
        seconds = GUESSED_STACK_S * stacks + sum(expected[cell.workload] for cell in cells)
        text += f", about {duration_text(seconds)} including builds, if no result is reused"
    if unknown:
        text += f" (a guess for the {unknown} that never ran here)"
    print_text(text)
