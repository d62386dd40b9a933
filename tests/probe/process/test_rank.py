"""What a rank measures, step by step, of a framework that does nothing: no torch."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.probe.border.wire import CellRequest, PhaseReading
from harness.probe.process.rank import RankMeasurement

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
    framework: Any = SimpleNamespace(start=start, judge=judge, **optional)
    measurement = RankMeasurement(framework, request, rank, {}, Meter(), stages.append)
    measurement.measure()
    return measurement, stages


def test_the_steps_come_in_the_order_of_the_documentation() -> None:
    _, stages = measured()
    assert stages == ["init", *STEP, *STEP, "measure", *STEP, "measure"]


def test_a_simulation_is_not_profiled() -> None:
    measurement, stages = measured("sim")
    assert stages == ["init", *STEP, *STEP, "measure", "measure"]
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


def test_an_adapter_without_an_ideal_or_with_a_broken_one_costs_no_measurement() -> None:
    def broken(*_: object) -> None:
        raise KeyError("hidden_size")

    without, _ = measured()
    failing, _ = measured(ideal=broken)
    computed, _ = measured(ideal=lambda *_: {"step.device_peak_bytes": {"batch": 1}})
    assert without.record.ideal_note == "the adapter computes no ideal"
    assert failing.record.ideal_note == "KeyError: 'hidden_size'"
    assert computed.record.ideal == {"step.device_peak_bytes": {"batch": 1}}
