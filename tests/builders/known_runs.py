"""Runs of one cell whose problems the advisories know."""

from __future__ import annotations

from collections.abc import Callable

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.model import Cell, Failed, Outcome, Passed, Result, Stack
from dsregress.probe import scenario
from dsregress.probe.border.wire import Detail, Numerics, RankRecord, RunRecord
from tests.builders.cells import result_of
from tests.paths import ROOT
from vgpu.figures import PhaseReading

NAME = "llama_zero3_backward"
LLAMA = scenario.load(ROOT / "scenarios" / f"{NAME}.py")
QUARTER = "gradient_accumulation_steps=4,zero_stage=2"


def ran(
    version: str, variant: str, *, error: float = 0.2, crash: str = "", transformers: str = "4.57.6", launches: int = 0
) -> Result:
    """One whose gradient is so many tolerances from the truth, and which launches so many operations in backward."""
    cell = Cell(
        stack=Stack(python="3.11", versions={"torch": "2.13.0", "transformers": transformers, "deepspeed": version}),
        scenario=NAME, scenario_version=1, variant=variant, device="cpu", framework=LLAMA.framework,
        parameters=LLAMA.resolve(variant, "cpu"),
    )  # fmt: skip
    numerics = Numerics(losses=[1.0], true_losses=[1.0], gradient_norm_error=error, loss_error=0.1, parameter_error=0.1)
    record = RunRecord(
        outcome="passed",
        world_size=1,
        ranks=[RankRecord(rank=0, phases={"backward": PhaseReading(op_launches=launches)}, numerics=numerics)],
    )
    outcome: Outcome = Failed("step", crash) if crash else Passed()
    return result_of(cell, None if crash else record, outcome)


def compared(*results: Result, detail_of: Callable[[Result], Detail | None] = lambda _: None) -> Comparison:
    return compare(results, results[0].cell.stack.id, Thresholds(), detail_of)
