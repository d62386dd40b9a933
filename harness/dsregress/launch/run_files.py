"""Files that a run left in its folder -> typed values. Code under test wrote them, so nothing in them is trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from dsregress.launch.contract import Ended
from dsregress.model import NO_FIGURES, Failed, MachineFault, Outcome, OutOfMemory, Passed, TimedOut, has_figures
from dsregress.probe.border import machine
from dsregress.probe.border.encoding import bounded_text
from dsregress.probe.border.faults import (
    DETAIL_LENGTH,
    INSTRUCTION_LENGTH,
    MOST_WHEREABOUTS,
    SIGNATURE_LENGTH,
    STAGE_LENGTH,
    WHEREABOUTS_LENGTH,
)
from dsregress.probe.border.plausible import nests_too_deep, why_implausible
from dsregress.probe.border.untrusted import MOST_FILE_BYTES, read_regular
from dsregress.probe.border.wire import DEADLOCK_S, STAGE_TIMEOUTS, Explanation, RunRecord
from dsregress.system.decoding import Damaged, decoded

_T = TypeVar("_T")

_record_decoder = msgspec.json.Decoder(RunRecord, strict=True)
_parts_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_explanation_decoder = msgspec.json.Decoder(Explanation, strict=True)
_any_decoder = msgspec.json.Decoder()

_UNREADABLE = "the record cannot be read"


def read_end_of_run(folder: Path, timeout_s: float) -> Ended:
    """Return the end according to ``record.json``. A missing or malformed record is a failure of the harness."""
    try:
        record = _decode_record(read_regular(folder / "record.json", MOST_FILE_BYTES))
    except FileNotFoundError:
        return Ended(outcome=_no_record(folder, "no record was left"))
    except OSError as error:
        return Ended(outcome=_no_record(folder, _UNREADABLE, error.strerror or str(error)))
    except Damaged as error:
        return Ended(outcome=_no_record(folder, _UNREADABLE, str(error)))
    outcome = _outcome(record, timeout_s)
    detail, record.detail = record.detail, None
    return Ended(
        outcome=outcome,
        record=record,
        detail=detail,
        explanation=_read_explanation(folder),
        benchmark=_benchmark(folder),
    )


def _decode_record(data: bytes) -> RunRecord:
    """Decode a record. Raise Damaged."""
    try:
        record = decoded(_record_decoder, data)
    except Damaged:
        # What explains the figures is free in form and may be at fault; the figures are not lost with it.
        parts = decoded(_parts_decoder, data)
        parts["detail"] = msgspec.Raw(b"null")
        record = decoded(_record_decoder, msgspec.json.encode(parts))
    if record.detail is not None and nests_too_deep(record.detail.configuration):
        record.detail = None
    record.stage, record.signature = (
        bounded_text(record.stage, STAGE_LENGTH),
        bounded_text(record.signature, INSTRUCTION_LENGTH),
    )
    record.log_tail = record.log_tail[-DETAIL_LENGTH:]
    record.machine_fault = bounded_text(record.machine_fault, SIGNATURE_LENGTH)
    record.whereabouts = [bounded_text(line, WHEREABOUTS_LENGTH) for line in record.whereabouts[:MOST_WHEREABOUTS]]
    if why := why_implausible(record):
        raise Damaged(why)
    return record


def _no_record(folder: Path, signature: str, detail: str = "") -> Outcome:
    if machine.disk_is_full(folder):
        return MachineFault("harness", machine.DISK_FULL, signature, detail)
    return Failed("harness", signature, detail)


def _outcome(record: RunRecord, timeout_s: float) -> Outcome:
    if record.outcome == "passed":
        return Passed() if has_figures(record) else Failed(stage="harness", signature=NO_FIGURES)
    if record.outcome == "out_of_memory":
        return OutOfMemory(phase=record.stage, detail=record.signature)
    if record.outcome == "machine_fault":
        return MachineFault(
            stage=record.stage, fault=record.machine_fault, signature=record.signature, detail=record.log_tail
        )
    limits_s = {"timed_out": timeout_s, "deadlocked": DEADLOCK_S, "still_working": STAGE_TIMEOUTS * timeout_s}
    if record.outcome in limits_s:
        return TimedOut(
            stage=record.stage,
            limit_s=limits_s[record.outcome],
            working=record.outcome == "still_working",
            whereabouts=tuple(record.whereabouts),
        )
    if record.outcome == "failed":
        return Failed(stage=record.stage, signature=record.signature, detail=record.log_tail)
    return Failed(stage="harness", signature=f"the record tells an unknown outcome: {record.outcome[:40]!r}")


def _read_explanation(folder: Path) -> Explanation | None:
    """Return the holders of memory, if the run was made to explain it and got that far."""
    return _optional(folder / "explanation.json", _explanation_decoder)


def _benchmark(folder: Path) -> dict[str, object] | None:
    """Return pytest-benchmark's file, if the run got far enough to leave one."""
    found = _optional(folder / "benchmark.json", _any_decoder)
    sound = isinstance(found, dict) and found.get("benchmarks") and not nests_too_deep(found)
    return found if sound else None


def _optional(file: Path, decoder: msgspec.json.Decoder[_T]) -> _T | None:
    """Return the content of a file that the run need not leave; None if it cannot be read."""
    try:
        return decoded(decoder, read_regular(file, MOST_FILE_BYTES))
    except (OSError, Damaged):
        return None
