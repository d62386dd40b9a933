"""Decides which cells must run, and which results are reused from the store.

If some results of a timed workload are stored, the missing ones are run together with the baseline, so that each time has
its pair. Exact measurements need no other cell.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dsregress.model import Cell, Result, Stack
from dsregress.run.cell_matrix import CellMatrix
from dsregress.run.watch import Watch
from dsregress.store import Store
from dsregress.store.reuse import reusable


class Todo(msgspec.Struct, frozen=True, kw_only=True):
    """The cells to run, and the results that are reused."""

    run: dict[str, tuple[Cell, ...]]  #: workload -> the cells of one session, baseline first if it has one
    reused: tuple[Result, ...]


def decide(
    cells: CellMatrix,
    keys: Mapping[str, str],
    baseline: Stack,
    rounds: int,
    store: Store,
    watch: Watch,
    *,
    fresh: bool,
) -> Todo:
    """Decide which cells must be run. ``keys`` has the content key of each cell by its id."""
    run: dict[str, tuple[Cell, ...]] = {}
    reused: list[Result] = []
    for workload, members in cells.workloads.items():
        timed = rounds if is_timed(members[0]) else 0
        stored = {cell.id: _stored_runs(cell, keys[cell.id], store, watch) for cell in members} if not fresh else {}
        found = {cell.id: reusable(stored.get(cell.id, ()), timed) for cell in members}
        missing = [cell for cell in members if found[cell.id] is None]
        if missing:
            together = [c for c in members if c in missing or (timed and c.stack == baseline)]
            run[workload] = tuple(sorted(together, key=lambda cell: cell.stack != baseline))
        kept = [result for result in found.values() if result is not None]
        reused += kept
        sessions = {result.session for result in kept}
        for cell in members:  # the other side of each reused time
            if cell.stack == baseline:
                reused += [r for r in stored.get(cell.id, ()) if r.session in sessions and r is not found[cell.id]]
    return Todo(run=run, reused=tuple(reused))


def is_timed(cell: Cell) -> bool:
    """Return True if its steps take real time: in every mode but the simulation."""
    return cell.device != "sim"


def _stored_runs(cell: Cell, key: str, store: Store, watch: Watch) -> tuple[Result, ...]:
    loaded = store.of_cell(cell, key)
    for problem in loaded.problems:
        watch.note(f"left out: {problem}")
    return tuple(msgspec.structs.replace(result, cell=cell) for result in loaded.results)  # named as in this call
