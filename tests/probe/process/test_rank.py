"""What a rank measures, step by step, of a framework that does nothing: no torch."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from dsregress.probe.border import faults
from dsregress.probe.border.wire import CellRequest
from dsregress.probe.harness_fault import HarnessFault
from dsregress.probe.oracles.unbroken import NotCoveredError
from dsregress.probe.process.rank import RankMeasurement
from vgpu.figures import PhaseReading

STEP = ["forward", "backward", "step"]


@pytest.fixture(autouse=True)
def _collected_as_before() -> Iterator[None]:
    """A rank freezes objects for good, as its process ends with the cell."""
    yield
    gc.unfreeze()


class Meter:
    """Reports the number of phases so far as bytes."""

    def __init__(self) -> None:
        self.phases = 0

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def begin(self) -> None: ...

    def end(self) -> PhaseReading:
        self.phases += 1
        return PhaseReading(device_peak_bytes=self.phases)


class Job:
    """One micro-batch whose loss is infinite at first."""

    micro_batches = 1

    def __init__(self) -> None:
        self.steps = 0

    def next_batch(self) -> None:
        self.steps += 1

    def forward(self, micro_batch: int) -> None: ...

    def backward(self, micro_batch: int) -> None:
        len("called from Python")

    def step(self, micro_batch: int) -> None: ...

    def loss(self) -> float:
        return float("inf") if self.steps == 1 else 2.0

    def gradient_norm(self) -> None: ...

    def parameters(self) -> dict[str, int]:
        return {"weight": self.steps}

    def configuration(self) -> dict[str, int]:
        return {"framework.stage": 3}


def start(parameters: Any, device: str, shape: Any, measured: Any) -> Job:
    with measured():
        return Job()


def judge(parameters: Any, device: str, shape: Any, steps: int, trained: Any, numerics: Any) -> None:
    numerics.parameter_error = float("inf")
    numerics.note = f"{steps} steps to judge, {trained['weight']} walked"


def measured(device: str = "cpu", rank: int = 0, **optional: Any) -> tuple[RankMeasurement, list[str]]:
    """A measurement that is done, and the stages that it announced."""
    stages: list[str] = []
    request = CellRequest(
        scenario="s",
        variant="base",
        device=device,
        parameters={},
        framework="f",
        warmup_rounds=0,
        rounds=0,
        timeout_s=9.0,
    )
    framework: Any = SimpleNamespace(**{"start": start, "judge": judge, **optional})
    measurement = RankMeasurement(framework, request, rank, {}, Meter(), stages.append)
    measurement.measure()
    return measurement, stages


def test_the_steps_come_in_the_order_of_the_documentation() -> None:
    _, stages = measured()
    assert stages == ["init", *STEP, *STEP, "harness", *STEP, "measure", "harness", "measure"]


def test_a_simulation_is_not_profiled() -> None:
    measurement, stages = measured("sim")
    assert stages == ["init", *STEP, *STEP, "harness", "measure", "harness", "measure"]
    assert {reading.host_calls for reading in measurement.record.phases.values()} == {0}
    assert measurement.detail.host_functions == {}


def test_the_last_metered_step_counts_and_the_profiled_one_counts_calls() -> None:
    measurement, _ = measured()
    peaks = {name: reading.device_peak_bytes for name, reading in measurement.record.phases.items()}
    assert peaks == {"init": 1, "forward": 5, "backward": 6, "step": 7}
    assert measurement.detail.host_functions["backward"]["builtins.len"] == 1
    assert measurement.detail.configuration == {"framework.stage": 3}


def test_every_step_is_judged_and_what_is_no_number_can_be_stored() -> None:
    measurement, _ = measured()
    numerics = measurement.record.numerics
    assert numerics is not None
    assert numerics.losses == [None, 2.0, 2.0]
    assert numerics.note == "3 steps to judge, 3 walked"
    assert numerics.parameter_error == 1e300


def test_only_rank_0_records_numerics() -> None:
    measurement, _ = measured(rank=1)
    assert measurement.record.numerics is None


def raising(error: Exception) -> Any:
    def oracle(*_: object) -> None:
        raise error

    return oracle


def test_a_job_that_an_oracle_does_not_cover_is_measured_and_the_record_says_why() -> None:
    without, _ = measured()
    uncovered, _ = measured(ideal=raising(NotCoveredError("of one engine")))
    unjudged, _ = measured(judge=raising(NotCoveredError("dropout is random")))
    computed, _ = measured(ideal=lambda *_: {"step.device_peak_bytes": {"batch": 1}})
    assert without.record.ideal_note == "the adapter computes no ideal"
    assert uncovered.record.ideal_note == "of one engine"
    assert unjudged.record.numerics is not None
    assert unjudged.record.numerics.note == "dropout is random"
    assert computed.record.ideal == {"step.device_peak_bytes": {"batch": 1}}


@pytest.mark.parametrize(("name", "oracle"), [("ideal", "memory"), ("judge", "numerics")])
@pytest.mark.parametrize("error", [KeyError("hidden_size"), NotImplementedError("aten::mm on meta")], ids=repr)
def test_an_oracle_that_breaks_ends_the_measurement_in_the_harness(name: str, oracle: str, error: Exception) -> None:
    with pytest.raises(HarnessFault) as caught:
        measured(**{name: raising(error)})
    assert str(caught.value) == f"the {oracle} oracle broke: {type(error).__name__}: {error}"
    assert faults.stage_of(caught.value) == "harness"


@pytest.mark.parametrize(
    ("device", "why"), [("sim", "a simulation computes no values"), ("cpu", "the adapter hands out no trained values")]
)
def test_a_job_without_trained_values_says_so(device: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "parameters", lambda job: None)
    numerics = measured(device)[0].record.numerics
    assert numerics is not None
    assert numerics.note == why
