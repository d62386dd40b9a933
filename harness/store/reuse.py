"""Selects the stored results that replace a new run."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model import Failed, OutOfMemory, Passed, Result, is_measurement
from harness.probe.adapters import PROGRAM


def reusable(results: Sequence[Result], rounds: int) -> Result | None:
    """Return the newest of the results of one content key (oldest first) that counts for a run with ``rounds`` timed rounds.

    A release that crashes or runs out of memory does so again, and its result is kept. Other runs are tried again: a
    timeout, which may be due to a busy machine; a run that the machine or the harness ended; and a program that did not
    begin because something it needs (a model, a file, a library of the system) was missing.
    """
    for result in reversed(results):
        match result.outcome:
            case Passed():
                if result.record is not None and len(result.record.round_s) >= rounds:
                    return result
            case Failed(stage="import") if result.cell.framework == PROGRAM:
                continue
            case Failed() | OutOfMemory() if is_measurement(result.outcome):
                return result
    return None
