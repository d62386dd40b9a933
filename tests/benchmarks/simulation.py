"""``sim`` at full scale: the time of its parts, and the memory of the process."""

from __future__ import annotations

import os
from collections.abc import Iterator

from dsregress.launch.contract import Ended, Executor, RunPlan
from dsregress.model import Cell, Environment, Passed
from dsregress.probe.scenario import Scenario
from tests.benchmarks.figures import BenchmarkFigure, measured
from tests.benchmarks.watching import PeakMemory

SCENARIO = "llama3_70b_zero3"
#: (model, ranks, most seconds of processor time).
_JOBS = (("llama-3-70b", 32, 5), ("llama-3-8b", 32, 5), ("llama-3.1-405b", 512, 20))
_GIB = 1 << 30


def run(environment: Environment, scenario: Scenario, executor: Executor, repeats: int) -> Iterator[BenchmarkFigure]:
    """Run each job as its rank 0, with non-reentrant checkpointing: import, init, two steps."""
    version = environment.stack.versions["deepspeed"]
    for model, ranks, goal_s in _JOBS:
        parts: dict[str, list[float]] = {}
        variant = f"model={model},world_size={ranks}"
        cell = Cell(
            stack=environment.stack,
            scenario=SCENARIO,
            scenario_version=scenario.version,
            variant=variant,
            device="sim",
            framework=scenario.framework,
            parameters=scenario.resolve(variant, "sim"),
        )
        for _ in range(repeats):
            for part, value in _once(environment, cell, executor).items():
                parts.setdefault(part, []).append(value)
        for part, values in parts.items():
            unit = "GiB" if "memory" in part else "s"
            wanted = {"processor time of all of it": f"{goal_s} or less", "peak memory": "under 2"}.get(part, "")
            section = f"sim, DeepSpeed {version}, {model} as rank 0 of {ranks}, sequence 2048"
            yield measured(section, part, values, unit, wanted)


def _once(environment: Environment, cell: Cell, executor: Executor) -> dict[str, float]:
    """Run the cell once. Return part -> seconds, and the peak memory in GiB."""
    before = os.times()
    with PeakMemory() as peak:
        worker = executor.worker(environment, cell.device, cell.framework)
        try:
            ended = worker.start(cell, RunPlan(warmup_rounds=0, rounds=0))
        finally:
            worker.close()
    after = os.times()
    assert isinstance(ended, Ended), f"{cell.id}: {ended}"
    assert isinstance(ended.outcome, Passed), f"{cell.id}: {ended}"
    assert ended.record is not None
    (rank,) = ended.record.ranks
    step_s = sum(reading.seconds for phase, reading in rank.phases.items() if phase != "init")
    return {
        "import": ended.record.import_s,
        "init": rank.init_s,
        "one step": step_s,
        "the cell (init, two steps, its process)": ended.duration_s,
        "all of it": ended.record.import_s + ended.duration_s,
        "processor time of all of it": (
            after.children_user + after.children_system - before.children_user - before.children_system
        ),
        "peak memory": peak.bytes / _GIB,
    }
