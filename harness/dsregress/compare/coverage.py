"""Coverage of a run by the oracles: those that did not judge it, and why."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.compare.worst_readings import Excess
from dsregress.model import Passed, Result
from dsregress.probe.border.wire import NO_TRUTH, NO_VALUES, Numerics, RunRecord
from dsregress.probe.program import INFERENCE

MEMORY, NUMERICS = "memory", "numerics"


def not_judged(
    result: Result, record: RunRecord, excesses: Sequence[Excess], numerics: Sequence[Numerics], *, judged: bool
) -> tuple[tuple[str, str], ...]:
    """Return ``(oracle, reason)`` for each oracle that could not judge a passed run. ``judged`` says that the numerics
    oracle gave a distance."""
    if not isinstance(result.outcome, Passed):
        return ()
    found = []
    if not excesses:
        notes = [rank.ideal_note for rank in record.ranks if rank.ideal_note]
        found.append((MEMORY, notes[0] if notes else "it computed nothing"))
    if not judged:
        found.append((NUMERICS, _without_numerics(result, numerics)))
    return tuple(found)


def _without_numerics(result: Result, numerics: Sequence[Numerics]) -> str:
    notes = [numbers.note for numbers in numerics if numbers.note]
    if notes:
        return notes[0].removeprefix(f"{NO_TRUTH}: ")
    if result.cell.parameters.get(INFERENCE):
        return "it trains nothing"
    if result.cell.device == "sim":
        return NO_VALUES
    return "its trained values were not compared" if numerics else "no values were recorded"
