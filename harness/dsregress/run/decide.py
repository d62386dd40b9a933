"""Decides which cells must run, and which results are reused from the store.

If some results of a timed workload are stored, the missing ones are run together with the baseline, so that each time has
its pair. Exact measurements need no other cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from dsregress.model import Cell, Result, Stack
from dsregress.run.cell_matrix import CellMatrix
from dsregress.store.reuse import reusable


class Todo(msgspec.Struct, frozen=True, kw_only=True):
    """The cells to run, and the results that are reused."""

    run: dict[str, tuple[Cell, ...]]  #: workload -> the cells of one session, baseline first if it has one
    reused: tuple[Result, ...]


def decide(
    cells: CellMatrix,
    stored_runs: Mapping[str, Sequence[Result]],
    baseline: Stack,
    rounds: int,
    probe_sha256: str,
) -> Todo:
    """Decide which cells must be run. ``stored_runs`` has those of each cell's content by its id, the oldest
    first; ``probe_sha256`` is the hash of the probe that would run them now."""
    run: dict[str, tuple[Cell, ...]] = {}
    reused: list[Result] = []
    for workload, members in cells.workloads.items():
        timed = rounds if is_timed(members[0]) else 0
        stored = {cell.id: stored_runs[cell.id] for cell in members}
        found = {cell.id: reusable(stored.get(cell.id, ()), timed, probe_sha256) for cell in members}
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
