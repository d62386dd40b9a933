"""Estimates the time of cells: from stored runs of their workloads, else by a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from dsregress.model import Cell, Passed
from dsregress.store import Store
from dsregress.wording.workload_words import is_given_program

#: Seconds for importing a stack, for building one, and for a cell of a scenario whose workload was never run: round
#: estimates for the scenarios that come with the harness, not measurements.
GUESSED_IMPORT_S = 6.0
GUESSED_STACK_S = 12.0
_GUESSED_CELL_S = {"sim": 8.0, "cpu": 5.0, "cuda": 30.0}


def expected_s(cells: Sequence[Cell], store: Store) -> dict[str, float]:
    """Return workload -> seconds of its newest stored run, on the first of these stacks where it passed; if it passed on
    none, on the first. Unknown ones are left out."""
    passed: dict[str, float] = {}
    failed: dict[str, float] = {}
    for cell in cells:
        if cell.workload not in passed and (result := store.last_run(cell)) is not None:
            found = passed if isinstance(result.outcome, Passed) else failed
            found.setdefault(cell.workload, result.duration_s)
    return {**failed, **passed}


def guess_s(cell: Cell) -> float | None:
    """Return seconds for a cell without any stored run; None for a given program's, which may take seconds or an hour."""
    return None if is_given_program(cell.scenario) else _GUESSED_CELL_S.get(cell.device, 0.0)


def guessed_s(cells: Sequence[Cell], known_s: Mapping[str, float], store: Store) -> dict[str, float]:
    """Return workload -> seconds, for those that are not in ``known_s``: for a given program those of its other stored runs
    in this device mode, else of other programs'. Workloads without any are left out."""
    unknown = {cell.workload: cell for cell in cells if cell.workload not in known_s}
    guesses = {workload: guess_s(cell) for workload, cell in unknown.items()}
    programs = [cell for workload, cell in unknown.items() if guesses[workload] is None]
    runs = [run for run in store.runs_of(is_given_program) if isinstance(run.outcome, Passed)] if programs else []
    for cell in programs:
        alike = [run for run in runs if run.cell.device == cell.device]
        own = [run for run in alike if run.cell.scenario == cell.scenario]
        if times := [run.duration_s for run in own or alike]:
            guesses[cell.workload] = median(times)
    return {workload: seconds for workload, seconds in guesses.items() if seconds is not None}
