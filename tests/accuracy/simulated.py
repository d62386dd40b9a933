"""Published points -> simulated results. A point is a program like any other that is given on a command line."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.config.settings import Settings
from dsregress.envs import hardware
from dsregress.envs.installer import Installer
from dsregress.model import Cell, Passed, Result
from dsregress.probe.program import DEFAULTS
from dsregress.probe.scenario import BASE_VARIANT
from dsregress.run import available_workloads, cell_matrix, pipeline
from dsregress.run.cell_matrix import Selection
from dsregress.run.session import open_session
from dsregress.run.watch import Watch
from tests.accuracy.points import PointAnswer, PublishedPoint, compare_point

#: The parameters that identify a stored result as one of a point's program, even if other parameters have been renamed.
_IDENTITY = ("program", "world_size", "rank", "gpu", "warmup_steps", "sources_sha256")

#: Whose releases a point has that names no others: the figures stay when the default moves.
STACK = "transformers-4"


def simulate_points(
    points: Sequence[PublishedPoint],
    settings: Settings,
    installer: Installer,
    watch: Watch,
    published: Sequence[Result] = (),
    *,
    fresh: bool = False,
) -> list[PointAnswer]:
    """Return the prediction of each point: from ``published``, whichever version of the probe simulated it, else from the
    store, else from a run. Raise UsageError, EnvironmentUnavailable, ResultsError, KeyboardInterrupt."""
    cells = _cells(points, settings, installer)
    results = {cell.id: found for cell in cells if (found := _newest(cell, published)) is not None}
    if missing := [cell for cell in cells if cell.id not in results]:
        stacks = list({cell.stack.id: cell.stack for cell in missing}.values())
        with open_session(settings, stacks, watch, installer) as opened:
            results |= {result.cell.id: result for result in opened.newest(missing, fresh=fresh)}
    return [compare_point(point, results[cell.id]) for point, cell in zip(points, cells, strict=True)]


def _cells(points: Sequence[PublishedPoint], settings: Settings, installer: Installer) -> list[Cell]:
    """Return the cell of each point, with the releases that it was measured with."""
    names = [available_workloads.chosen_workload(None, _program(point), settings) for point in points]
    scenarios = available_workloads.load_scenarios(settings, names)
    here = hardware.detect()
    found: list[Cell] = []
    for point, name in zip(points, names, strict=True):
        versions = {**point.packages, "deepspeed": point.deepspeed}
        choice = pipeline.Choice(stack=STACK, versions=versions, baseline=f"deepspeed=={point.deepspeed}")
        stacks = pipeline.plan_stacks(settings, choice, installer).stacks
        selection = Selection(scenarios=(name,), variants=(BASE_VARIANT,), devices=("sim",))
        found += cell_matrix.build_matrix(stacks[:1], scenarios, selection, (), here).cells
    return found


def _program(point: PublishedPoint) -> available_workloads.Program:
    return available_workloads.Program(
        line=point.line, folder=point.folder, gpu=point.gpu, steps=point.steps, rank=str(point.rank)
    )


def _newest(cell: Cell, published: Sequence[Result]) -> Result | None:
    found = [
        result
        for result in published
        if result.cell.stack.id == cell.stack.id
        and isinstance(result.outcome, Passed)
        and all(_parameter(result.cell, name) == _parameter(cell, name) for name in _IDENTITY)
    ]
    return max(found, key=lambda result: result.when, default=None)


def _parameter(cell: Cell, name: str) -> object:
    """Return a cell's parameter, or its default: a result may be older than the parameter."""
    return cell.parameters.get(name, DEFAULTS.get(name))
