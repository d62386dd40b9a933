"""Cells of two scenarios that nothing runs for real."""

from __future__ import annotations

from harness.model import Cell, Environment, Hardware, Stack
from harness.probe.border.wire import PhaseReading, RankRecord
from harness.probe.scenario import Scenario

#: The least that a rank measures.
RANK = RankRecord(rank=0, phases={"backward": PhaseReading()})

HARDWARE = Hardware(cpu="c", cores=2, memory_bytes=24 << 30)

SCENARIOS = {
    "llama": Scenario(version=1, summary="", framework="f", parameters={}, devices={"cpu": {}, "sim": {}}),
    "qwen": Scenario(version=1, summary="", framework="f", parameters={}, devices={"cpu": {}}),
}


def stack(version: str) -> Stack:
    return Stack(python="3.11", versions={"deepspeed": version}, label=version)


def cell(version: str, device: str = "cpu") -> Cell:
    return Cell(
        stack=stack(version),
        scenario="s",
        scenario_version=1,
        variant="base",
        device=device,
        framework="f",
        parameters={},
    )


def environment(version: str) -> Environment:
    return Environment(stack=stack(version), lock_sha256="")
