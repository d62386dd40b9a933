"""Outcomes of a program that say nothing of the releases that are compared: what its user has to do, or what all have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dsregress.compare.failed_imports import failed_import
from dsregress.model import Cell, Failed, Outcome, Result, Stack, read_signature
from dsregress.run.decide import is_timed
from dsregress.run.watch import Watch


def says_what_to_do(outcome: Outcome) -> bool:
    """Return True if a program ended in one line that tells its user what it lacks: so it would with any other release."""
    return isinstance(outcome, Failed) and read_signature(outcome.signature).says_what_to_do


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


def cells_to_compare(cells: tuple[Cell, ...], tried: Result | None, watch: Watch) -> tuple[Cell, ...]:
    """Return the cells; that of ``tried`` alone if it ended in what its program lacks with each of their stacks."""
    if tried is None or len(cells) == 1 or not fails_with_each(tried, [cell.stack for cell in cells]):
        return cells
    watch.note(f"{tried.cell.scenario}: the other releases are not run, as it lacks the same with each")
    return tuple(cell for cell in cells if cell.id == tried.cell.id)


def are_many_simulations(cells: Sequence[Cell]) -> bool:
    """Return True for one program with three releases or more, in the mode in which each may run alone."""
    return len(cells) > 2 and all(not is_timed(cell) and cell.workload == cells[0].workload for cell in cells)


def cells_between(cells: tuple[Cell, ...], ends: Sequence[Result], watch: Watch) -> tuple[Cell, ...]:
    """Return the cells; the first and the last alone if a program that runs fails in the same words with both: those between
    would hardly say more."""
    failures = {
        (result.outcome.stage, result.outcome.signature) if isinstance(result.outcome, Failed) else None
        for result in ends
    }
    (failure, *others) = failures
    if others or failure is None or failure[0] == "install":
        return cells
    first, last = cells[0], cells[-1]
    watch.note(
        f"{first.scenario}: fails alike with {first.stack.label} and {last.stack.label}, so the {len(cells) - 2} between "
        "are not run; --as-given runs all"
    )
    return (first, last)
