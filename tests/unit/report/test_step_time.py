"""The least time of a step, in reports of simulated cells: the same figure wherever it stands, and called a model."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dsregress import compare
from dsregress.advice import card_fit, gpus
from dsregress.cli import cli
from dsregress.model import Cell, Result, Stack
from dsregress.probe.border.wire import RankRecord, RunRecord
from dsregress.report.context import report_context
from dsregress.report.report_view import report_view
from dsregress.store import Store
from tests.builders.cells import result_of
from vgpu.figures import PhaseReading

GIB = 1 << 30


def simulated(version: str, gathers: int, **parameters: object) -> Result:
    """A backward that computes for two seconds on an A100, and gathers so many GiB over the network."""
    phases = {
        "init": PhaseReading(device_peak_bytes=GIB),
        "forward": PhaseReading(device_peak_bytes=GIB, flops=312 * 10**12),
        "backward": PhaseReading(
            device_peak_bytes=GIB, flops=624 * 10**12, collectives={"all_gather": [gathers, gathers * GIB]}
        ),
        "step": PhaseReading(device_peak_bytes=GIB),
    }
    ideal = {"step.device_retained_bytes": {"parameters": GIB, "master": 200 * GIB, "optimizer": 400 * GIB}}
    cell = Cell(
        stack=Stack(python="3.11", versions={"deepspeed": version}),
        scenario="s",
        scenario_version=1,
        variant="base",
        device="sim",
        framework="f",
        parameters={"world_size": 32, "dtype": "bf16", **parameters},
    )
    record = RunRecord(outcome="passed", world_size=32, ranks=[RankRecord(rank=0, phases=phases, ideal=ideal)])
    return result_of(cell, record)


def tables(*results: Result) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    found = compare.compare(results, results[0].cell.stack.id, compare.Thresholds(), lambda _: None)
    return [(table.columns, list(table.rows)) for table in report_view(report_context(found)).tables]


def test_a_simulated_cell_that_names_its_card_has_the_least_time_of_a_step() -> None:
    ((columns, rows),) = tables(simulated("0.15.0", 1, gpu="A100-80G"), simulated("0.16.4", 1024, gpu="A100-80G"))
    assert columns == ("stack", "peak bwd", "held bwd", "peak step", "step, model", "on A100-80G")
    # forward 1 s; backward 2 s of compute, or 1024 GiB * 31 / 32 over 200 GB/s; states read and written at 2.04 TB/s
    assert [row[4] for row in rows] == [">= 3.63 s", ">= 6.96 s"]


def test_it_is_the_figure_that_fit_gives() -> None:
    result = simulated("0.16.4", 1024, gpu="A100-80G")
    question = card_fit.FitQuery(scenario="s", variant="base", cards=(gpus.card("A100-80G"),), ranks=(32,))
    assert card_fit.judge_cell(question, question.cards[0], result).least_step_s == pytest.approx(6.96, abs=0.005)


def test_a_reader_reads_that_it_is_a_model() -> None:
    found = compare.compare(
        [simulated("0.15.0", 1, gpu="A100-80G")], "py3.11-deepspeed0.15.0", compare.Thresholds(), lambda _: None
    )
    assert report_view(report_context(found)).notes[-1] == (
        "step, model: not measured; by peak FLOP/s and links no release can be faster on that card (docs/sim.md)"
    )


def test_where_no_card_is_named_or_it_lacks_the_dtype_no_time_is_made_up() -> None:
    ((columns, _),) = tables(simulated("0.15.0", 1))
    assert "step, model" not in columns
    ((_, rows),) = tables(simulated("0.15.0", 1, gpu="V100-32G"))
    assert rows[0][4] == "-"


def test_show_tells_it_by_phase_with_what_sets_it(tmp_path: Path) -> None:
    Store(str(tmp_path)).write(simulated("0.16.4", 1024, gpu="A100-80G"))
    shown = CliRunner().invoke(cli, ["show", "--results", str(tmp_path)])
    assert (
        "  on A100-80G a step takes at least 6.96 s, by a model: forward 1.00 s (compute), backward 5.33 s "
        "(communication), step 631.9 ms (memory)\n"
    ) in shown.output
