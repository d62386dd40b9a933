"""Whether it fits: verdicts, the fewest ranks, break points, and the words that a person reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from dsregress.advice import card_fit, gpus
from dsregress.advice.largest_fitting import LargestFitting
from dsregress.cli import cli
from dsregress.cli.progress import QuietWatch
from dsregress.config.settings import Settings
from dsregress.errors import UsageError
from dsregress.launch.contract import Ended
from dsregress.launch.fake import FakeExecutor
from dsregress.model import Cell, Environment, Failed, Hardware, Passed, Result, Stack
from dsregress.probe.border.wire import Detail, RankRecord, RunRecord
from dsregress.probe.scenario import Scenario
from dsregress.report.answers import fit_answer as fit_report
from dsregress.run.cell_matrix import CellMatrix
from dsregress.run.measure import MeasureContext, measure_cells
from dsregress.store import Store, measuring_version, newest_by_cell
from vgpu.figures import PhaseReading

GIB = 1 << 30
HARDWARE = Hardware(cpu="c", cores=2, memory_bytes=24 << 30)
SCENARIO = Scenario(
    version=1,
    summary="",
    framework="f",
    parameters={"model": "m", "world_size": 32, "sequence_length": 2048, "dtype": "bf16", "checkpointing": "none"},
    devices={"sim": {}},
    variants=({}, {"checkpointing": "reentrant"}),
)
STACKS = [Stack(python="3.11", versions={"deepspeed": version}, label=version) for version in ("0.15.0", "0.16.4")]


def simulated(cell: Cell) -> Ended:
    """1,280 GiB of states over the ranks, and 4 GiB for each 2,048 tokens; 0.16.4 keeps 120 GiB more in backward. One
    layer is as much as a rank."""
    if cell.parameters.get("checkpointing") == "reentrant":
        return Ended(outcome=Failed(stage="init", signature="ValueError: no"))
    states = 1280 * GIB // cell.parameters["world_size"] * cell.parameters.get("layers", 1)
    tokens = 4 * GIB * cell.parameters["sequence_length"] // 2048
    leak = 120 * GIB if cell.stack.versions["deepspeed"] == "0.16.4" else 0
    work = {"flops": 312 * 10**12, "collectives": {"all_gather": [1, 32 * 10**9]}}
    phases = {
        "init": PhaseReading(device_peak_bytes=states),
        "forward": PhaseReading(device_peak_bytes=states + tokens, **work),
        "backward": PhaseReading(
            device_peak_bytes=states + tokens + GIB + leak, device_retained_bytes=states + leak, **work
        ),
        "step": PhaseReading(device_peak_bytes=states + leak, host_peak_bytes=2 * GIB, flops=10**12),
    }
    record = RunRecord(outcome="passed", world_size=1, ranks=[RankRecord(rank=0, phases=phases)])
    return Ended(outcome=Passed(), record=record, detail=Detail(), started_at="2026-01-01T00:00:00Z", duration_s=1)


class SimulatedRuns:
    """Runs cells with the pipeline's own scheduler and store, on an executor that pretends."""

    def __init__(self, folder: Path, behaviour: Callable[[Cell], Ended] = simulated) -> None:
        self.store = Store(str(folder))
        self.executor = FakeExecutor(behaviour)

    def run(self, cells: Sequence[Cell]) -> Iterable[Result]:
        results = measure_cells(
            CellMatrix(cells=tuple(cells), skipped=()),
            [Environment(stack=stack, lock_sha256="l") for stack in STACKS],
            STACKS[0],
            MeasureContext(
                hardware=HARDWARE,
                settings=Settings(rounds=0, warmup_rounds=0),
                executor=self.executor,
                store=self.store,
                watch=QuietWatch(),
            ),
            fresh=False,
        )
        return newest_by_cell(results).values()

    @property
    def simulated(self) -> list[str]:
        return [line.split("/")[1] for line in self.executor.log if line.startswith("start")]


@pytest.fixture
def lab(tmp_path: Path) -> SimulatedRuns:
    return SimulatedRuns(tmp_path / "results")


def question(
    ranks: Sequence[int] = (16, 32, 64), cards: Sequence[str] = ("A800-80G",), **more: object
) -> card_fit.FitQuery:
    return card_fit.FitQuery(
        **{
            "scenario": "llama",
            "variant": "base",
            "cards": tuple(gpus.card(name) for name in cards),
            "ranks": tuple(ranks),
            **more,
        }
    )


def test_the_table_a_person_reads(lab: SimulatedRuns) -> None:
    found = card_fit.answer_fit(question(), SCENARIO, STACKS, lab.run)
    assert (
        fit_report.fits_text(found).replace(f"version {measuring_version('sim', 'f')} of", "version N of")
        == """\
llama, simulated: does it fit?

A800-80G: 77.75 GiB for tensors (79.25 GiB usable, 1.50 GiB set aside for CUDA and NCCL)
stack   ranks  peak        in        held bwd    host/node  headroom     verdict                    step time, model
0.15.0  16     85.00 GiB   backward  80.00 GiB   16.00 GiB  -7.25 GiB    OUT OF MEMORY IN INIT      >= 2.00 s, compute
0.15.0  32     45.00 GiB   backward  40.00 GiB   16.00 GiB  32.75 GiB    fits                       >= 2.00 s, compute
0.15.0  64     25.00 GiB   backward  20.00 GiB   16.00 GiB  52.75 GiB    fits                       >= 2.00 s, compute
0.16.4  16     205.00 GiB  backward  200.00 GiB  16.00 GiB  -127.25 GiB  OUT OF MEMORY IN INIT      >= 2.00 s, compute
0.16.4  32     165.00 GiB  backward  160.00 GiB  16.00 GiB  -87.25 GiB   OUT OF MEMORY IN BACKWARD  >= 2.00 s, compute
0.16.4  64     145.00 GiB  backward  140.00 GiB  16.00 GiB  -67.25 GiB   OUT OF MEMORY IN BACKWARD  >= 2.00 s, compute

0.15.0 on A800-80G: fits from 32 ranks on
0.16.4 on A800-80G: fits on none of 16, 32, 64 ranks

Peaks are allocated bytes; what the allocator reserves beyond them is not counted.
Step time is a model, not a measurement: no release can be faster on this hardware (peak FLOP/s, links, 200 Gb/s of \
network per GPU).
Measured by version N of the probe, 2026-01-01.
"""
    )


@pytest.mark.parametrize(
    ("ranks", "headroom", "overhead", "said"),
    [
        (8, 10.0, 1.5, "fits"),
        (8, 0.3, 1.5, "fits with less than 2.32 GiB to spare"),
        (8, 0.1, 1.5, "too close to call"),
        (8, -0.1, 1.5, "too close to call"),
        (8, -1.2, 1.5, "OUT OF MEMORY IN STEP"),
        (32, 0.5, 1.5, "too close to call"),
        (32, 0.6, 1.5, "fits with less than 2.31 GiB to spare"),
        (8, 0.1, 1.0, "fits with less than 2.34 GiB to spare"),
        (8, -0.1, 1.0, "OUT OF MEMORY IN STEP"),
    ],
)
def test_a_verdict_says_how_certain_it_is(
    lab: SimulatedRuns, ranks: int, headroom: float, overhead: float, said: str
) -> None:
    """It rests on what was seen outside PyTorch's allocator, on one node and over several; an amount that is set is sure."""
    asked = question(ranks=[ranks], overhead_bytes=round(overhead * GIB))
    found = card_fit.answer_fit(asked, SCENARIO, STACKS, lab.run)
    line = found.lines[0]
    peak = line.available_bytes - round(headroom * GIB)
    line = msgspec.structs.replace(line, peak_bytes=peak, fails_in="step" if headroom < 0 else "")
    text = fit_report.fits_text(msgspec.structs.replace(found, lines=(line,)))
    assert line.verdict == said
    assert f"  {said}  " in text
    assert ("Too close to call: it fits with the least" in text) is (said == "too close to call")
    assert ("0.36 GiB to 1.68 GiB" in text) is (said not in ("fits", "OUT OF MEMORY IN STEP"))


def test_what_the_allocator_reserves_is_a_range(lab: SimulatedRuns) -> None:
    found = card_fit.answer_fit(question(ranks=[32]), SCENARIO, STACKS, lab.run)
    early, late = (
        msgspec.structs.replace(line, reserved_bytes=(46 * GIB, most))
        for line, most in zip(found.lines, (46 * GIB, 59 * GIB), strict=True)
    )
    text = fit_report.fits_text(msgspec.structs.replace(found, lines=(early, late)))
    assert "reserves" in text
    assert "  46.00 GiB  " in text
    assert "46.00 to 59.00 GiB" in text


def test_the_same_as_markdown_and_json(lab: SimulatedRuns) -> None:
    found = card_fit.answer_fit(question(ranks=[32], cards=["A800-80G", "H200"]), SCENARIO, STACKS, lab.run)
    text = fit_report.fits_markdown(found)
    assert "| 0.16.4 | 32 | 165.00 GiB | backward |" in text
    assert text.count("for tensors") == 2
    content = json.loads(fit_report.fits_json(found))
    assert content["smallest_ranks"]["A800-80G"] == {STACKS[0].id: 32, STACKS[1].id: None}
    line = content["lines"][1]
    assert (line["fits"], line["fails_in"], line["counted"]) == (False, "backward", "allocated")
    assert line["headroom_bytes"] == line["available_bytes"] - 165 * GIB
    assert content["schema"] == 1
    assert content["gpus"][0]["sources"]


def test_each_scale_is_simulated_once_for_all_cards_and_never_again(lab: SimulatedRuns) -> None:
    card_fit.answer_fit(question(cards=["A800-80G", "H200", "B200"]), SCENARIO, STACKS, lab.run)
    assert len(lab.simulated) == 6
    card_fit.answer_fit(question(), SCENARIO, STACKS, lab.run)
    assert len(lab.simulated) == 6


def test_the_verdict_goes_by_what_the_allocator_reserves_where_that_is_known(lab: SimulatedRuns) -> None:
    def reserving(cell: Cell) -> Ended:
        ended = simulated(cell)
        assert ended.record is not None
        for reading in ended.record.ranks[0].phases.values():
            reading.reserved_peak_bytes = reading.device_peak_bytes * 2
        return ended

    lab.executor.behaviour = reserving
    found = card_fit.answer_fit(question(ranks=[32]), SCENARIO, STACKS[:1], lab.run)
    (line,) = found.lines
    assert (line.counted, line.peak_bytes, line.fails_in) == ("reserved", 90 * GIB, "init")
    assert "what PyTorch's caching allocator needs" in fit_report.fits_text(found)


def test_the_smallest_card_that_an_allocator_gets_through_on_goes_before_what_it_reserves(lab: SimulatedRuns) -> None:
    def scarce(cell: Cell) -> Ended:
        ended = simulated(cell)
        assert ended.record is not None
        for reading in ended.record.ranks[0].phases.values():
            reading.reserved_peak_bytes = 100 * GIB
        ended.record.ranks[0].phases["backward"].smallest_card_bytes = 50 * GIB
        return ended

    lab.executor.behaviour = scarce
    (line,) = card_fit.answer_fit(question(ranks=[32]), SCENARIO, STACKS[:1], lab.run).lines
    assert (line.fits, line.peak_bytes, line.peak_phase, line.counted) == (True, 50 * GIB, "backward", "reserved")


def test_a_job_that_trains_nothing_has_no_step_time_and_sends_nothing_in_a_step(lab: SimulatedRuns) -> None:
    def scoring(cell: Cell) -> Ended:
        ended = simulated(cell)
        assert ended.record is not None
        phases = ended.record.ranks[0].phases
        ended.record.ranks[0].phases = {phase: phases[phase] for phase in ("init", "forward")}
        return ended

    assert card_fit.answer_fit(question(ranks=[32]), SCENARIO, STACKS[:1], lab.run).lines[0].sent_bytes
    lab.executor.behaviour = scoring
    (line,) = card_fit.answer_fit(question(ranks=[16]), SCENARIO, STACKS[:1], lab.run).lines
    assert (line.peak_bytes, line.sent_bytes, line.bounds) == (84 * GIB, 0, {})


def test_a_cell_that_fails_is_a_line_with_its_reason_and_fits_nowhere(lab: SimulatedRuns) -> None:
    found = card_fit.answer_fit(question(ranks=[32], variant="checkpointing=reentrant"), SCENARIO, STACKS[:1], lab.run)
    assert found.smallest["A800-80G"][STACKS[0].id] is None
    assert "failed in init: ValueError: no" in fit_report.fits_text(found)


def test_layers_grow_until_they_break(lab: SimulatedRuns) -> None:
    sweep = card_fit.Sweep("layers", tuple(range(1, 101)))
    found = card_fit.answer_fit(question(ranks=[1024], sweep=sweep), SCENARIO, STACKS, lab.run)
    good, bad = found.break_points
    assert (good.largest_fitting, good.first_failing, good.reason) == (58, 59, "out of memory in backward")
    assert (bad.largest_fitting, bad.first_failing) == (None, 1)
    assert len(lab.simulated) <= 14  # and not a hundred
    text = fit_report.fits_text(found)
    assert "0.15.0 on A800-80G, 1,024 ranks: fits up to layers 58; 59 does not (out of memory in backward)" in text
    assert "0.16.4 on A800-80G, 1,024 ranks: not even layers 1 fits (out of memory in backward)" in text


def test_a_sweep_that_never_breaks_says_so(lab: SimulatedRuns) -> None:
    sweep = card_fit.Sweep("sequence_length", (2048, 4096))
    found = card_fit.answer_fit(question(ranks=[64], sweep=sweep), SCENARIO, STACKS[:1], lab.run)
    assert "64 ranks: sequence 4,096, the largest tried, fits" in fit_report.fits_text(found)
    assert [line.value for line in found.lines] == [2048, 4096]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 64])
def test_the_search_finds_every_break_point_and_starts_small(count: int) -> None:
    for fitting in range(count + 1):
        search, tried = LargestFitting(count), []
        while (index := search.next()) is not None:
            assert len(tried) < 2 * count.bit_length() + 2
            tried.append(index)
            search.record(index, index < fitting)
        assert tried[0] == 0
        assert len(set(tried)) == len(tried)
        assert max((i for i in tried if i < fitting), default=-1) == fitting - 1
        assert fitting == count or fitting in tried


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": (12,)}, "--ranks: 12 ranks do not fill nodes of 8 GPUs; take 8 or 16, or set --gpus-per-node"),
        ({"ranks": (5000,)}, "--ranks: 5000 ranks; a job has 1 to 4096"),
        ({"sweep": card_fit.Sweep("heads", (1,))}, "llama: has no parameter heads; take another scenario or sweep"),
        ({"variant": "zero=9"}, "--variant: no such variant: zero=9 ('zero' is not a parameter of this scenario)"),
    ],
)
def test_what_makes_no_sense_is_one_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        card_fit.check_fit_query(question(**change), SCENARIO)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_scenario_that_cannot_be_simulated_is_refused() -> None:
    real = Scenario(version=1, summary="", framework="f", parameters={"world_size": 2}, devices={"cpu": {}})
    with pytest.raises(UsageError, match="has no sim mode"):
        card_fit.check_fit_query(question(), real)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing", "--gpu", "H200"], "no such scenario: nothing"),
        (["llama3_70b_zero3", "--gpu", "H300"], "no such GPU: H300"),
        (["llama3_70b_zero3", "--gpu", "H200", "--ranks", "eight"], "not whole numbers: 'eight'"),
        (["llama3_70b_zero3", "--gpu", "H200", "--seq", "4..2"], "4..2 runs backwards; write 2..4"),
        (["llama3_70b_zero3", "--gpu", "H200", "--ranks", "1" + "0" * 20], "--ranks: a number is above"),
        (["llama3_70b_zero3", "--gpu", "H200", "--seq", "1..1" + "0" * 20], "--seq: a number is above 1,073,741,824"),
        (["llama3_70b_zero3", "--gpu", "H200", "--seq", "1,2..4"], "--seq: not a span: 1,2..4; write e.g. 2048..16384"),
        (["llama3_70b_zero3", "--gpu", "H200", "--max-layers", "4", "--seq", "1..2"], "only one sweep at a time"),
    ],
)
def test_the_command_refuses_before_it_starts_anything(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["fit", *arguments])
    assert isinstance(result.exception, UsageError)
    assert message in str(result.exception)
