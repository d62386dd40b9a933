"""``explain``: who holds the memory of a cell?"""

from __future__ import annotations

import fnmatch

import click

from harness.cli import options
from harness.cli.output import write_answer
from harness.cli.progress import Progress
from harness.compare.metrics import DEVICE_RETAINED
from harness.config.settings import Settings
from harness.envs.installer import Installer
from harness.errors import EXIT_OK, NothingMeasured, UsageError
from harness.model import Cell
from harness.probe.border.wire import Explanation
from harness.report import timeline
from harness.report.answers import explain as explain_report
from harness.run import pipeline, targets
from harness.run.matrix import Selection
from harness.run.session import session
from harness.store import Store, newest
from harness.wording import commands


@click.command("explain")
@click.argument("wanted", metavar="CELL")
@click.option("--against", metavar="CELL", help="Show what CELL holds more than this one; a version alone will do.")
@click.option(
    "--moment",
    "moments",
    multiple=True,
    metavar="GLOB",
    help=f"Moments, as metrics are named: '{DEVICE_RETAINED.flat_name('backward')}', '*.host_*'. Repeatable. "
    "Default: the device's at the peak and the end of each phase, and the host's where it is used.",
)
@click.option("--fresh", is_flag=True, help="Explain again, even if an explanation is stored.")
@options.executor_options
@options.results_option
@options.json_option
@click.option("--svg", "svg_file", metavar="FILE", help="Draw the live bytes through the step (- for stdout).")
def command(
    wanted: str,
    against: str | None,
    moments: tuple[str, ...],
    fresh: bool,
    executor: str | None,
    ray_address: str | None,
    results: str | None,
    json_file: str | None,
    svg_file: str | None,
) -> int:
    """Show what holds the memory at each phase's peak and at its end: by category (parameter shards, gathered parameters,
    gradients, ...), by module, and by the place in the code that made it. The bytes add up to the metric.

    CELL is stack/scenario/variant/device: an id as `show` prints it, a glob that only one stored cell matches, or
    VERSION/scenario/variant/device with a release of the package under test. Unless its explanation is stored, the cell
    runs once more, untimed.

    \b
    Examples:
      explain 0.16.4/llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu
      explain '*deepspeed0.16.4/llama3_70b*' --moment 'backward.*'
      explain 0.16.4/llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu --against 0.15.0
      explain 0.16.4/llama_zero3_backward/base/cpu --against 0.16.8 --svg step.svg --json who.json

    \b
    Exit codes: 0 explained, 2 no such cell, 3 the harness failed, 4 the cell's run gave no explanation.
    """
    settings = options.load_settings(results=results, executor=executor, ray_address=ray_address)
    store = Store(settings.results)
    installer = pipeline.new_installer(settings)
    cell = _cell(wanted, settings, store, installer)
    other = None
    if against:
        text = against if "/" in against else f"{against}/{cell.workload}"
        other = _cell(text, settings, store, installer)
    cells = [cell, other] if other is not None else [cell]
    with Progress() as progress:
        found = _explained(cells, settings, installer, progress, fresh=fresh)
    mine = found[cell.id]
    keys = _moments(mine, moments)
    theirs = found[other.id] if other is not None else None
    other_id = other.id if other is not None else ""
    write_answer(
        lambda: (
            explain_report.as_text(cell.id, mine, keys)
            if theirs is None
            else explain_report.difference_as_text(cell.id, mine, other_id, theirs, keys)
        ),
        (json_file, lambda: explain_report.as_json(cell.id, mine, keys, other_id, theirs)),
        (svg_file, lambda: _drawn(cell, mine, other, theirs)),
    )
    return EXIT_OK


def _explained(
    cells: list[Cell], settings: Settings, installer: Installer, progress: Progress, *, fresh: bool
) -> dict[str, Explanation]:
    stacks = list(dict.fromkeys(cell.stack for cell in cells))
    with session(settings, stacks, progress, installer) as opened:
        found = opened.explain(cells, fresh=fresh)
    explanations: dict[str, Explanation] = {}
    for name, one in found.items():
        if one.explanation is None:
            raise NothingMeasured(one.why_not, where=name, hint=f"`{commands.regress()}` on it shows more")
        explanations[name] = one.explanation
    return explanations


def _cell(text: str, settings: Settings, store: Store, installer: Installer) -> Cell:
    """The one cell that ``text`` means. Raises UsageError."""
    package = targets.varied_package(settings)
    stored = {name: result.cell for name, result in newest(store.load().results).items()}
    for pattern in (text, f"*-{package}{text}", f"{text}*", f"*-{package}{text}*"):
        found = sorted(name for name in stored if name == pattern or fnmatch.fnmatchcase(name, pattern))
        if len(found) == 1:
            return stored[found[0]]
        if found:
            names = ", ".join(found[:4])
            raise UsageError(f"{text} means {len(found)} stored cells: {names}", where="explain", hint="name one")
    return _planned(text, package, settings, installer)


def _planned(text: str, package: str, settings: Settings, installer: Installer) -> Cell:
    """A cell that was never measured: a release on the configured stack."""
    parts = text.split("/")
    if len(parts) != 4:
        raise UsageError(
            f"no stored cell is {text}",
            where="explain",
            hint=f"write VERSION/scenario/variant/device, or see `{commands.SHOW}`",
        )
    stack, scenario, variant, device = parts
    version = stack.rpartition(f"-{package}")[2].partition("-")[0] if f"-{package}" in stack else stack
    selection = Selection(scenarios=(scenario,), variants=(variant,), devices=(device,))
    choice = pipeline.Choice(versions={package: version}, baseline=version, selection=selection)
    planned = pipeline.plan(settings, choice, installer)
    found = [cell for cell in planned.matrix.cells if stack in (cell.stack.id, cell.stack.versions.get(package))]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{text} means {len(found)} cells", where="explain", hint="name one workload")
    skipped = [f"{one.workload}: {one.reason}" for one in planned.matrix.skipped]
    raise UsageError(
        skipped[0] if skipped else f"no such cell: {text}", where="explain", hint=f"`{commands.SCENARIOS}` lists them"
    )


def _moments(explanation: Explanation, patterns: tuple[str, ...]) -> list[str]:
    """Raises UsageError where a pattern means none."""
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
    return timeline.as_svg(lines, cell.workload)
