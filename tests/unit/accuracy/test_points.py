"""Published figures beside predictions: which reading is meant, units, and what counts as close enough."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from dsregress.advice import gpus
from dsregress.errors import UsageError
from dsregress.model import Cell, Failed, Outcome, Passed
from dsregress.probe.border.wire import RankRecord, RunRecord
from dsregress.probe.program import program
from tests.accuracy import points
from tests.accuracy.points import PredictedFigure, PublishedPoint, Reading, Speed
from tests.builders.cells import cell, result_of
from vgpu.figures import MemoryReading, PhaseReading

GIB = 1 << 30


def point(*readings: Reading, unit: points.Unit = "GiB") -> PublishedPoint:
    return PublishedPoint(
        name="p", grade="A", measured_on="1 GPU", line="train.py", gpu="H100-80G", steps=2, deepspeed="0.16.4",
        unknown="", unit=unit, readings=readings,
    )  # fmt: skip


def read(at: str, step: int, allocated: float, peak: float = 0.0) -> MemoryReading:
    return MemoryReading(
        at=at, step=step, allocated_bytes=round(allocated), allocated_peak_bytes=round(peak), reserved_bytes=0,
        reserved_peak_bytes=0,
    )  # fmt: skip


def figures(point: PublishedPoint, *taken: MemoryReading) -> tuple[PredictedFigure, ...]:
    record = RunRecord(outcome="passed", ranks=[RankRecord(rank=0, readings=list(taken))])
    return points.compare_point(point, result_of(of_torch(cell("0.16.4", "sim")), record)).figures


def of_torch(cell: Cell) -> Cell:
    stack = msgspec.structs.replace(cell.stack, versions={**cell.stack.versions, "torch": "2.13.0"})
    return msgspec.structs.replace(cell, stack=stack)


def figure(quantity: str, measured: float, predicted: float | None) -> PredictedFigure:
    return PredictedFigure(
        point="p", at="a", step=None, quantity=quantity, measured_bytes=round(measured), rounding_bytes=0.005 * GIB,
        predicted_bytes=None if predicted is None else round(predicted),
    )  # fmt: skip


def test_every_quantity_that_was_published_is_a_figure() -> None:
    allocated, peak = figures(point(Reading(at="init", allocated=2.5, peak=3.0)), read("init", 0, 2.5 * GIB, 4 * GIB))
    assert (allocated.quantity, allocated.measured_bytes, allocated.error_bytes) == ("allocated", 5 * GIB // 2, 0)
    assert (peak.quantity, peak.error_bytes, peak.is_within) == ("peak", GIB, False)


def test_the_unit_is_that_of_the_source() -> None:
    (decimal,) = figures(point(Reading(at="f", peak=9.68), unit="GB"))
    (exact,) = figures(point(Reading(at="f", peak=17763840), unit="bytes"))
    assert (decimal.measured_bytes, exact.measured_bytes) == (9_680_000_000, 17_763_840)


def test_a_reading_is_found_by_its_step_or_is_the_last() -> None:
    taken = [read("t.py:9 in after", 1, 10), read("t.py:9 in after", 2, 20), read("t.py:9 in thereafter", 3, 30)]
    (first,) = figures(point(Reading(at="after", step=1, allocated=1.0)), *taken)
    (last,) = figures(point(Reading(at="after", allocated=1.0)), *taken)
    assert (first.predicted_bytes, last.predicted_bytes) == (10, 20)


def test_a_job_that_never_came_there_has_no_prediction() -> None:
    (missing,) = figures(point(Reading(at="after", allocated=1.0)), read("before", 1, 10))
    assert (missing.predicted_bytes, missing.error_bytes, missing.is_within) == (None, None, False)


@pytest.mark.parametrize(
    ("quantity", "measured", "predicted", "within"),
    [
        ("allocated", 100 * GIB, 100.5 * GIB, True),
        ("allocated", 100 * GIB, 99.4 * GIB, False),
        ("peak", 1 * GIB, 1.019 * GIB, True),
        ("peak", 1 * GIB, 0.97 * GIB, False),
        ("reserved", 10 * GIB, 10.2 * GIB, True),
        ("reserved", 10 * GIB, 9.6 * GIB, False),
        ("peak", 1 * GIB, None, False),
    ],
)
def test_close_enough_is_a_share_or_a_hundredth_or_two(
    quantity: str, measured: float, predicted: float | None, within: bool
) -> None:
    assert figure(quantity, measured, predicted).is_within is within


@pytest.mark.parametrize(("measured", "error"), [(5.0, 0.4), (5.4, 0), (8.2, 0), (20.5, 0), (21.0, -0.5)])
def test_within_a_range_nothing_is_off(measured: float, error: float) -> None:
    low = figure("reserved", measured * GIB, 5.4 * GIB)
    ranged = msgspec.structs.replace(low, most_predicted_bytes=round(20.5 * GIB))
    assert ranged.error_bytes == pytest.approx(error * GIB, abs=2)


def test_reserved_bytes_are_predicted_as_a_range() -> None:
    reading = dataclasses.replace(read("after", 1, GIB), reserved_bytes=5 * GIB, late_reserved_bytes=20 * GIB)
    (found,) = figures(point(Reading(at="after", reserved=8.0)), reading)
    assert (found.predicted_bytes, found.most_predicted_bytes, found.is_within) == (5 * GIB, 20 * GIB, True)


def test_errors_are_counted_over_the_figures_that_have_a_prediction() -> None:
    answer = points.PointAnswer(
        point=point(),
        cell="c",
        torch="2.13.0",
        outcome=result_of(cell("1"), None).outcome,
        figures=(
            figure("peak", 2 * GIB, 2.1 * GIB),
            figure("peak", 4 * GIB, 4 * GIB),
            figure("peak", 0.1 * GIB, 0.104 * GIB),
            figure("peak", 5 * GIB, None),
        ),
    )
    (peak,) = points.errors([answer])
    assert (peak.quantity, peak.figures, peak.as_printed, peak.within) == ("peak", 3, 2, 2)
    assert peak.median_bytes == pytest.approx(0.004 * GIB, rel=1e-6)
    assert (peak.mean_share, peak.largest_share) == (pytest.approx(0.025), pytest.approx(0.05))


@pytest.mark.parametrize(
    ("outcome", "predicted", "is_incomplete"),
    [(Passed(), GIB, False), (Passed(), None, True), (Failed("init", "ValueError"), GIB, True)],
)
def test_a_point_is_complete_where_its_job_ended_well_and_each_figure_has_a_prediction(
    outcome: Outcome, predicted: int | None, is_incomplete: bool
) -> None:
    answer = points.PointAnswer(
        point=point(), cell="c", torch="2.13.0", outcome=outcome, figures=(figure("peak", 2 * GIB, predicted),)
    )
    assert bool(points.incomplete([answer])) is is_incomplete
    assert bool(points.missed([answer])) is (predicted is not None)


def test_points_are_chosen_by_globs() -> None:
    chosen = points.read_points(["gpt2_zero*", "offload_states"])
    assert {one.name.partition("-")[0] for one in chosen} == {"gpt2_zero", "offload_states"}
    with pytest.raises(UsageError, match="no such point: gpt3"):
        points.read_points(["gpt3"])


@pytest.mark.parametrize("one", points.read_points(), ids=lambda one: one.name)
def test_every_point_of_the_table_can_be_launched(one: PublishedPoint) -> None:
    scenario = program(version=1, line=one.line, folder=one.folder, gpu=gpus.card(one.gpu).name, steps=one.steps)
    assert scenario.parameters["world_size"] >= 1
    assert one.readings or one.speed or one.fits is False
    assert one.source


@pytest.mark.parametrize(
    ("fitted", "needed", "is_right", "is_open"),
    [
        (True, 60 * GIB, True, False),
        (True, 78 * GIB, False, True),
        (True, 90 * GIB, False, False),
        (False, 60 * GIB, False, False),
        (False, 90 * GIB, True, False),
    ],
)
def test_a_run_that_names_its_card_is_judged(fitted: bool, needed: int, is_right: bool, is_open: bool) -> None:
    one = msgspec.structs.replace(point(), gpu="A100-80G", fits=fitted)
    reading = PhaseReading(device_peak_bytes=needed, reserved_peak_bytes=needed, smallest_card_bytes=needed)
    record = RunRecord(outcome="passed", ranks=[RankRecord(rank=0, phases={"forward": reading})])
    found = points.compare_point(one, result_of(of_torch(cell("0.16.4", "sim")), record)).fit
    assert found is not None
    assert (found.is_right, found.is_open) == (is_right, is_open)


def test_a_run_of_another_card_is_not_judged() -> None:
    record = RunRecord(outcome="passed", ranks=[RankRecord(rank=0, phases={"forward": PhaseReading()})])
    assert points.compare_point(point(), result_of(of_torch(cell("0.16.4", "sim")), record)).fit is None


def test_points_of_a_source_share_what_they_have_in_common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "points.toml").write_text("sources = []")
    (tmp_path / "more.toml").write_text("""
        [[sources]]
        name = "s"
        source = "someone"
        [sources.common]
        grade = "A"
        measured_on = "1 GPU"
        gpu = "H100-80G"
        steps = 2
        deepspeed = "0.16.4"
        unknown = ""
        [[sources.points]]
        name = "p"
        line = "p.py"
        [[sources.points]]
        name = "q"
        line = "q.py"
        steps = 3
        """)
    monkeypatch.setattr(points, "_FOLDER", tmp_path)
    assert [(one.name, one.steps, one.source) for one in points.read_points()] == [
        ("p", 2, "someone"),
        ("q", 3, "someone"),
    ]


def test_points_have_names_of_their_own() -> None:
    names = [one.name for one in points.read_points()]
    assert len(set(names)) == len(names)


def fast(name: str, gpu: str, source: str, measured_s: float, roofline_s: float) -> points.PointAnswer:
    published = msgspec.structs.replace(
        point(), name=name, gpu=gpu, source=source, speed=Speed(rate=measured_s, unit="s")
    )
    step = points.PredictedStep(
        measured_s=measured_s, bound_s=measured_s / 3, matmul_s=0.0, memory_s=0.0, communication_s=0.0, roofline_s=roofline_s
    )  # fmt: skip
    return points.PointAnswer(point=published, cell="c", torch="2.13.0", outcome=Passed(), figures=(), step=step)


def test_a_rate_and_what_a_step_has_of_it_give_its_seconds() -> None:
    assert Speed(rate=500.0, unit="tokens/s per GPU", per_step=1000).step_s == 2.0
    assert Speed(rate=10.6, unit="s").step_s == 10.6


def test_a_factor_is_tried_on_points_that_it_was_not_taken_from() -> None:
    answers = [
        fast("a", "A100-80G", "s", 1.2, 1.0),
        fast("b", "A100-40G", "t", 1.5, 1.0),
        fast("c", "H100-80G", "u", 2.0, 1.0),
        fast("d", "H200", "u", 2.0, 1.0),
        fast("e", "V100-32G", "v", 9.0, 1.0),
    ]
    found = points.calibration(answers)
    assert found is not None
    assert found.factors == {"8.0": pytest.approx(1.35), "9.0": 2.0}  # one point of an architecture gives none
    assert found.errors["a"] == pytest.approx(1.5 / 1.2 - 1)
    assert found.errors["b"] == pytest.approx(1.2 / 1.5 - 1)
    assert found.errors_elsewhere["c"] == pytest.approx(1.35 / 2 - 1)
    assert found.above_twice_the_bound == 5
    assert points.calibration(answers[:2]) is None


def test_a_step_time_is_computed_from_what_the_simulated_job_did() -> None:
    phases = {"forward": PhaseReading(flops=10**15, moved_bytes=10**12, collectives={"all_gather": [1, 10**9]})}
    record = RunRecord(outcome="passed", ranks=[RankRecord(rank=0, phases=phases)])
    simulated = of_torch(cell("0.16.4", "sim"))
    simulated = msgspec.structs.replace(simulated, parameters={**simulated.parameters, "world_size": 8})
    published = msgspec.structs.replace(point(), speed=Speed(rate=2.0, unit="s"))
    step = points.compare_point(published, result_of(simulated, record)).step
    assert step is not None
    assert step.bound_s == pytest.approx(10**15 / 989.4e12)
    assert step.matmul_s == pytest.approx(step.bound_s / 0.803)
    assert step.ratio == pytest.approx(2.0 / (step.matmul_s + step.memory_s))
    older = RunRecord(outcome="passed", ranks=[RankRecord(rank=0, phases={"forward": PhaseReading(flops=10**15)})])
    answer = points.compare_point(published, result_of(simulated, older))
    assert answer.step is None
    assert points.incomplete([answer]) == (answer,)
