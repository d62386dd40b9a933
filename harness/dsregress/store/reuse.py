"""Selects the stored results that replace a new run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsregress.model import Failed, OutOfMemory, Passed, Result, is_measurement
from dsregress.probe.adapters import PROGRAM
from dsregress.store.schema import changed_key_parts
from dsregress.wording.names import outcome_text


def reusable(results: Sequence[Result], rounds: int, probe_sha256: str = "") -> Result | None:
    """Return the newest of the results of one content key (oldest first) that counts for a run with ``rounds`` timed rounds
    by a probe with this hash; an empty one stands for any.

    A release that crashes or runs out of memory does so again, and its result is kept. Other runs are tried again: a
    timeout, which may be due to a busy machine; a run that the machine or the harness ended; and a program that did not
    begin because something it needs (a model, a file, a library of the system) was missing. So is a program that failed
    under another probe, which may have been at fault.
    """
    for result in reversed(results):
        match result.outcome:
            case Passed():
                if result.record is not None and len(result.record.round_s) >= rounds:
                    return result
            case Failed(stage=stage) if result.cell.framework == PROGRAM and (
                stage == "import"
                or (stage != "install" and result.probe_sha256 != (probe_sha256 or result.probe_sha256))
            ):
                continue
            case Failed() | OutOfMemory() if is_measurement(result.outcome):
                return result
    return None


def why_not_reused(runs: Sequence[Result], parts: Mapping[str, object], rounds: int, probe_sha256: str = "") -> str:
    """Say why none of a cell's stored runs (oldest first) stands for a run with these key parts, ``rounds`` and probe; empty
    where one does."""
    if not runs:
        return "it has no stored results"
    same = [run for run in runs if not changed_key_parts(run, parts)]
    if not same:
        changed = ", ".join(changed_key_parts(runs[-1], parts))
        return f"changed since its last run, of {runs[-1].started_at}: {changed}"
    if reusable(same, rounds, probe_sha256) is not None:
        return ""
    last = same[-1]
    if isinstance(last.outcome, Passed):
        return f"its last run, of {last.started_at}, has fewer timed rounds than {rounds}"
    return f"its last run, of {last.started_at}, is tried again: {outcome_text(last.outcome)}"
