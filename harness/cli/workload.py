"""One scenario by its name, and the cell that options which name exactly one workload mean."""

from __future__ import annotations

from harness.cli.options import WorkloadOptions
from harness.config.settings import Settings
from harness.envs import hardware
from harness.errors import UsageError
from harness.model import Cell, Stack
from harness.probe.scenario import Scenario
from harness.run import matrix, pipeline
from harness.run.matrix import Selection

#: Preferred device modes: the real thing at a small size, else the simulation.
_DEVICES = ("cpu", "sim", "cuda")


def declared_scenario(settings: Settings, name: str) -> Scenario:
    """Raises UsageError where there is no scenario of that name."""
    scenarios = pipeline.load_scenarios(settings)
    if name not in scenarios:
        raise matrix.nothing_matches("scenario", name, scenarios)
    return scenarios[name]


def one_cell(settings: Settings, stack: Stack, workload: WorkloadOptions) -> Cell:
    """The cell of one stack. Raises UsageError where the options mean no workload, several, or one that cannot be run."""
    scenarios = pipeline.load_scenarios(settings)
    name, device = workload.scenario, workload.device
    if device is None and name in scenarios:
        device = next((mode for mode in _DEVICES if mode in scenarios[name].devices), None)
    found = matrix.build(
        (stack,),
        scenarios,
        Selection(scenarios=(name,), variants=(workload.variant,), devices=(device or matrix.AUTO,)),
        (),
        hardware.detect(),
    )
    if len(found.cells) > 1:
        names = ", ".join(cell.workload for cell in found.cells[:6])
        raise UsageError(f"that means {len(found.cells)} workloads: {names}", hint="name one")
    if not found.cells:
        skipped = found.skipped[0]
        raise UsageError(f"{skipped.workload}: {skipped.reason}", hint="take another --device")
    return found.cells[0]
