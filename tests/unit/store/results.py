"""A result that no machine measured."""

from __future__ import annotations

from harness.model import Cell, Hardware, Outcome, Passed, Result, Stack
from harness.probe.border.wire import Detail, RunRecord
from harness.store import SCHEMA, detail_hashes


def result(
    outcome: Outcome | None = None,
    session: str = "s1",
    started_at: str = "2026-01-01T00:00:00Z",
    code_sha256: str = "c",
    lock_sha256: str = "l",
    probe_sha256: str = "p",
    rounds: int = 9,
    detail: Detail | None = None,
) -> Result:
    cell = Cell(
        stack=Stack(python="3.11", versions={"deepspeed": "0.16.4"}),
        scenario="llama",
        scenario_version=1,
        variant="base",
        device="cpu",
        framework="harness.probe.frameworks.deepspeed",
        parameters={"zero_stage": 3},
    )
    return Result(
        schema=SCHEMA,
        cell=cell,
        lock_sha256=lock_sha256,
        code_sha256=code_sha256,
        probe_sha256=probe_sha256,
        installed={"deepspeed": "0.16.4"},
        hardware=Hardware(cpu="a processor", cores=2, memory_bytes=24 << 30),
        session=session,
        started_at=started_at,
        duration_s=1.5,
        outcome=Passed() if outcome is None else outcome,
        record=RunRecord(outcome="passed", round_s=[0.1] * rounds),
        detail_sha256=detail_hashes(detail) if detail is not None else {},
    )
