"""Outcomes of a program that say what its user has to do, and nothing of a release."""

from __future__ import annotations

from dsregress.model import Failed, Outcome, read_signature

#: The errors whose line says what to do (`dsregress.programs.launch.failure_causes`).
_SAY_WHAT_TO_DO = ("CannotRun", "NotHere")


def says_what_to_do(outcome: Outcome) -> bool:
    """Return True if a program ended in one line that tells its user what it lacks: so it would with any other release."""
    return isinstance(outcome, Failed) and read_signature(outcome.signature).error in _SAY_WHAT_TO_DO
