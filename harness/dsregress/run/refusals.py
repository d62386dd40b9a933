"""Outcomes of a program that say nothing of the releases that are compared: what its user has to do, or what all have."""

from __future__ import annotations

from collections.abc import Collection

from dsregress.advice.other_packages import failed_import
from dsregress.model import Failed, Outcome, Result, Stack, read_signature

#: The errors whose line says what to do (`dsregress.programs.launch.failure_causes`).
_SAY_WHAT_TO_DO = ("CannotRun", "NotHere")


def says_what_to_do(outcome: Outcome) -> bool:
    """Return True if a program ended in one line that tells its user what it lacks: so it would with any other release."""
    return isinstance(outcome, Failed) and read_signature(outcome.signature).error in _SAY_WHAT_TO_DO


def fails_with_each(result: Result, stacks: Collection[Stack]) -> bool:
    """Return True if a program would end with any of these stacks as it did with its own: it lacks what its user has to add,
    or a name of a package that is the same in all."""
    if says_what_to_do(result.outcome):
        return True
    missing = failed_import(read_signature(result.outcome.signature)) if isinstance(result.outcome, Failed) else None
    if missing is None:
        return False
    releases = {stack.versions.get(missing.package.replace("_", "-")) for stack in stacks}
    return len(releases) == 1 and None not in releases
