"""``explain``: who holds the memory of a cell?"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence

import click
import msgspec

from dsregress.cli import options
from dsregress.cli.named_cells import named_cell, one_cell
from dsregress.cli.output import note_problems, write_answer
from dsregress.cli.progress import Progress
from dsregress.cli.stored_results import measuring_settings
from dsregress.compare.metrics import DEVICE_RETAINED
from dsregress.config.settings import Settings
from dsregress.envs.installer import Installer
from dsregress.errors import EXIT_OK, NothingMeasured, UsageError
from dsregress.model import Cell, Environment, Result, Stack, split_workload
from dsregress.probe.border.wire import Explanation
from dsregress.report import memory_timeline
from dsregress.report.answers import explain_answer as explain_report
from dsregress.run import pipeline
from dsregress.run.interpreters import environments_of
from dsregress.run.session import open_session
from dsregress.store import Store, explained_in, newest_by_cell
from dsregress.wording import commands


class ExplainedMoments(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a cell that is explained."""

    against: str | None  #: beyond this cell
    moments: tuple[str, ...]  #: globs; empty: those that matter


class ExplainingRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a cell that has no explanation."""

    fresh: bool  #: even if it has one
    executor: options.ExecutorOptions
    results: str | None


@click.command("explain")
@click.argument("wanted", metavar="CELL")
@options.grouped(
    "explained",
    ExplainedMoments,
    click.option("--against", metavar="CELL", help="Show what CELL holds beyond this cell; a version alone is enough."),
    click.option(
        "--moment",
        "moments",
        multiple=True,
        metavar="GLOB",
        help=f"Moments to explain, by metric name: '{DEVICE_RETAINED.flat_name('backward')}', '*.host_*'. Repeatable. "
        "Default: device memory at the peak and the end of each phase, and host memory where it is used.",
    ),
)
@options.fixed_option(
    "With VERSION/scenario/variant/device: the version of any other package, e.g. trl=0.24.0. Repeatable."
)
@options.python_option
@options.grouped(
    "run",
    ExplainingRun,
    click.option("--fresh", is_flag=True, help="Explain again, even if an explanation is stored."),
    options.executor_options,
    options.results_option,
)
@options.answer_options(svg="Draw the live bytes over the step (- for stdout).")
def explain_command(
    wanted: str,
    explained: ExplainedMoments,
    fixed: dict[str, str],
    pythons: tuple[str, ...],
    run: ExplainingRun,
    files: options.AnswerFiles,
) -> int:
    """Show what holds a cell's memory at the peak and at the end of each phase: by category (parameter shards, gathered
    parameters, gradients, ...), by module, and by the line of code that allocated it. The bytes add up to the metric. If its
    stored run trained wrong, also the first module that differs from plain PyTorch.

    CELL is stack/scenario/variant/device: an id as `show` prints it, a glob that matches one stored cell, or
    VERSION/scenario/variant/device with a release of the package under test. If no explanation is stored, the cell runs once
    more, untimed. With --python, scenario/variant/device is enough; with two interpreters the answer is what the second one
    holds beyond the first.

    \b
    Examples:
      dsregress explain 0.16.4/llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu
      dsregress explain '*deepspeed0.16.4/llama3_70b*' --moment 'backward.*'
      dsregress explain 0.16.4/llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu --against 0.15.0
      dsregress explain 0.16.4/llama_zero3_backward/base/cpu --against 0.16.8 --svg step.svg --json who.json

    \b
    Exit codes: 0 explained, 2 no such cell, 3 the harness failed, 4 the run gave no explanation.
    """
    settings = options.load_settings(results=run.results, executor=run.executor)
    store = Store(settings.results)
    installer = pipeline.new_installer(settings)
    existing = environments_of(settings, pythons, fixed, installer) if pythons else ()
    other = None
    if existing and wanted.count("/") == 2:
        cells = [_in_stack(wanted, environment.stack, settings) for environment in existing]
        cell, other = cells[-1], cells[0] if len(cells) > 1 else None
    else:
        cell = named_cell(wanted, settings, store, installer, fixed)
    if against := explained.against:
        text = against if "/" in against else f"{against}/{cell.workload}"
        other = named_cell(text, settings, store, installer, fixed, like=cell.stack)
    cells = [cell, other] if other is not None else [cell]
    found = {} if run.fresh else _published_explanations(cells, store)
    if missing := [one for one in cells if one.id not in found]:
        if store.is_bundle:  # of an earlier version, which may have declared a workload otherwise
            missing = [_in_stack(one.workload, one.stack, settings) for one in missing]
        with Progress() as progress:
            found |= _explain_cells(
                missing, measuring_settings(settings, store), installer, progress, existing, fresh=run.fresh
            )
    moments = _moments(found[cell.id], explained.moments)
    _write_explanations(found, cell, other, moments, files, _first_module(store.last_run(cell)))
    return EXIT_OK


def _first_module(newest: Result | None) -> str:
    """Return the first module that differs from plain PyTorch in a result, and how; "" if it has none."""
    if newest is None or newest.record is None or not newest.record.ranks:
        return ""
    first = newest.record.ranks[0]
    of_models = (first.numerics, *first.models.values())
    return next((one.first_module for one in of_models if one is not None and one.first_module), "")


def _write_explanations(
    found: Mapping[str, Explanation],
    cell: Cell,
    other: Cell | None,
    keys: Sequence[str],
    files: options.AnswerFiles,
    first_module: str,
) -> None:
    """Print what holds the memory of ``cell``, beyond that of ``other`` if there is one, and its ``first_module`` that
    differs from plain PyTorch, if any does. Write it to the files."""
    mine = found[cell.id]
    theirs = found[other.id] if other is not None else None
    other_id = other.id if other is not None else ""
    write_answer(
        lambda: (
            (
                explain_report.explanation_text(cell.id, mine, keys)
                if theirs is None
                else explain_report.difference_as_text(cell.id, mine, other_id, theirs, keys)
            )
            + explain_report.first_module_text(first_module)
        ),
        (files.json, lambda: explain_report.explanation_json(cell.id, mine, keys, other_id, theirs, first_module)),
        (files.svg, lambda: _drawn(cell, mine, other, theirs)),
    )


def _published_explanations(cells: Sequence[Cell], store: Store) -> dict[str, Explanation]:
    """Return a bundle's explanations by cell id, whichever probe made them. A folder's explanations are reused only if they
    are current."""
    if not store.is_bundle:
        return {}
    loaded = store.load()
    note_problems(loaded.problems)
    explanation_of, results = explained_in([store.folder]), newest_by_cell(loaded.results)
    found = {cell.id: explanation_of(results[cell.id]) for cell in cells if cell.id in results}
    return {name: one for name, one in found.items() if one is not None}


def _explain_cells(
    cells: list[Cell],
    settings: Settings,
    installer: Installer,
    progress: Progress,
    existing: Sequence[Environment],
    *,
    fresh: bool,
) -> dict[str, Explanation]:
    with open_session(settings, (), progress, installer, existing) as opened:
        found = opened.explain(cells, fresh=fresh)
    explanations: dict[str, Explanation] = {}
    for name, one in found.items():
        if one.explanation is None:
            raise NothingMeasured(one.why_not, where=name, hint=f"`{commands.regress()}` on it shows more")
        explanations[name] = one.explanation
    return explanations


def _in_stack(text: str, stack: Stack, settings: Settings) -> Cell:
    """Return the cell of a stack that ``scenario/variant/device`` names. Raise UsageError."""
    scenario, variant, device = split_workload(text)
    return one_cell(settings, stack, options.WorkloadOptions(scenario=scenario, variant=variant, device=device))


def _moments(explanation: Explanation, patterns: tuple[str, ...]) -> list[str]:
    """Return the moments that the patterns match. Raise UsageError if a pattern matches none."""
    if not patterns:
        return explain_report.keys(explanation)
    for pattern in patterns:
        if not fnmatch.filter(explanation.moments, pattern):
            names = ", ".join(explanation.moments)
            raise UsageError(f"no such moment: {pattern}", where="--moment", hint=f"there are: {names}")
    return [key for key in explanation.moments if any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)]


def _drawn(cell: Cell, mine: Explanation, other: Cell | None, theirs: Explanation | None) -> str:
    lines = {cell.stack.id: mine.timeline}
    if other is not None and theirs is not None:
        package = next((name for name, one in cell.stack.versions.items() if one != other.stack.versions.get(name)), "")
        if package and cell.workload == other.workload:
            lines = {
                f"{package} {one.stack.versions[package]}": explained.timeline
                for one, explained in ((cell, mine), (other, theirs))
                if package in one.stack.versions
            }
        else:
            lines[other.id] = theirs.timeline
    return memory_timeline.as_svg(lines, cell.workload)
