"""How long cells take: from stored runs of their workloads, else a guess."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.model import Cell
from harness.store import Store

#: Seconds for a cell whose workload was never run, for importing a stack, and for building one: round estimates for the
#: scenarios that come with the harness, not measurements.
GUESSED_CELL_S = {"sim": 8.0, "cpu": 5.0, "cuda": 30.0}
GUESSED_IMPORT_S = 6.0
GUESSED_STACK_S = 12.0


def expected_s(cells: Sequence[Cell], store: Store) -> dict[str, float]:
    """Workload -> seconds that its newest stored run took, on whichever of these stacks; unknown ones are left out."""
    found: dict[str, float] = {}
    for cell in cells:
        if cell.workload not in found and (result := store.last_run(cell)) is not None:
            found[cell.workload] = result.duration_s
    return found


def guessed_s(cells: Sequence[Cell], known_s: Mapping[str, float]) -> float:
    """Seconds that the cells take, with a guess for each cell whose workload is not in ``known_s``."""
    return sum(known_s.get(cell.workload, GUESSED_CELL_S.get(cell.device, 0.0)) for cell in cells)
