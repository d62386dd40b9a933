"""What all forms of the report say alike."""

from __future__ import annotations

import msgspec

from harness.compare import pairs
from harness.compare.summary import measured
from harness.model import Stack
from harness.report.view import fits, reproduce
from tests.builders import synthetic
from tests.builders.synthetic import result


def test_the_command_that_shows_it_again_names_the_stack_that_the_pins_are_from() -> None:
    def of(version: str) -> Stack:
        return Stack(python="3.11", versions={"torch": "2.5.1", "deepspeed": version}, label=f"old-pins: {version}")

    finding = pairs.finding(
        *("", "fit/base/cpu"),
        metric="host_calls",
        phase="step",
        kind="regression",
        value=2,
        baseline_value=1,
        ratio=2,
        unit="calls",
        significant=True,
        relevant=True,
        message="",
    )
    assert reproduce(of("0.16.3"), of("0.15.0"), finding) == (
        "nox -s regress -- --stack old-pins --deepspeed 0.15.0,0.16.3 --baseline 0.15.0 "
        "--scenario fit --variant base --device cpu --fresh"
    )
    other = Stack(python="3.11", versions={"torch": "2.13.0", "deepspeed": "0.15.0"}, label="0.15.0")
    assert reproduce(of("0.16.3"), other, finding) == (
        "nox -s regress -- --stack old-pins --deepspeed 0.16.3 --scenario fit --variant base --device cpu --fresh"
    )


def test_what_a_generation_engine_keeps_of_the_card_is_not_there_for_the_job() -> None:
    def verdict(share: float) -> str:
        run = synthetic.record()
        for rank in run.ranks:
            rank.phases["backward"].device_peak_bytes = 30 << 30
        one = result(device="sim", run=run)
        cell = msgspec.structs.replace(one.cell, parameters={"gpu_memory_utilization": share})
        return fits(measured(msgspec.structs.replace(one, cell=cell)), "A100-80G")

    assert (verdict(0.0), verdict(0.5), verdict(0.7)) == ("fits", "fits", "OUT OF MEMORY in backward")
