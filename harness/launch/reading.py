"""Files that a run left in its folder -> typed values. Code under test wrote them, so nothing in them is trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from harness.launch.contract import Ended
from harness.model import Failed, Outcome, OutOfMemory, Passed, TimedOut
from harness.probe.border.wire import Explanation, RunRecord

_decoder = msgspec.json.Decoder(RunRecord, strict=True)
_explanation_decoder = msgspec.json.Decoder(Explanation, strict=True)


def ended(folder: Path, timeout_s: float) -> Ended:
    """The end according to ``record.json``. A record that is missing or malformed is a failure of the harness."""
    try:
        record = _decoder.decode((folder / "record.json").read_bytes())
    except FileNotFoundError:
        return Ended(outcome=Failed(stage="harness", signature="no record was left"))
    except (OSError, msgspec.DecodeError) as error:
        return Ended(outcome=Failed(stage="harness", signature="the record cannot be read", detail=str(error)))
    outcome = _outcome(record, timeout_s)
    detail, record.detail = record.detail, None
    return Ended(
        outcome=outcome,
        record=record,
        detail=detail,
        explanation=_explanation(folder),
        benchmark=_benchmark(folder),
    )


def _outcome(record: RunRecord, timeout_s: float) -> Outcome:
    if record.outcome == "passed":
        return Passed()
    if record.outcome == "out_of_memory":
        return OutOfMemory(phase=record.stage, detail=record.signature)
    if record.outcome == "timed_out":
        return TimedOut(stage=record.stage, limit_s=timeout_s)
    if record.outcome == "failed":
        return Failed(stage=record.stage, signature=record.signature, detail=record.log_tail)
    return Failed(stage="harness", signature=f"the record tells an unknown outcome: {record.outcome[:40]!r}")


def _explanation(folder: Path) -> Explanation | None:
    """Who held the memory, where the run was to explain it and got that far."""
    try:
        return _explanation_decoder.decode((folder / "explanation.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def _benchmark(folder: Path) -> dict[str, Any] | None:
    """pytest-benchmark's file, where the run got far enough to leave one."""
    try:
        found = json.loads((folder / "benchmark.json").read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("benchmarks") else None
