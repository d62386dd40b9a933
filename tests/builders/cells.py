"""Cells of two scenarios that nothing runs for real."""

from __future__ import annotations

from dsregress.model import Cell, Environment, Hardware, Outcome, Passed, Result, Stack
from dsregress.probe.border.wire import RankRecord, RunRecord
from dsregress.probe.scenario import Scenario
from dsregress.store import SCHEMA
from vgpu.figures import PhaseReading

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


def result_of(cell: Cell, record: RunRecord | None, outcome: Outcome | None = None) -> Result:
    """What a run of a cell came to, with nothing besides."""
    return Result(
        schema=SCHEMA,
        cell=cell,
        lock_sha256="l",
        code_sha256="c",
        probe_sha256="p",
        measuring_version="1",
        installed={},
        hardware=HARDWARE,
        session="s",
        started_at="2026-01-01T00:00:00Z",
        duration_s=1.0,
        outcome=outcome or Passed(),
        record=record,
    )
