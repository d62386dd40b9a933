"""The golden run: a few cells whose every figure is committed, so that none moves under an unchanged measuring version.

``tests/golden/figures.json`` holds the figures, and the measuring version of each device mode and adapter that they were
measured by.
`complaints` compares them with a run of today's.

Left out are the figures that differ from machine to machine or from run to run: seconds; losses, gradient norms and the
distances from plain PyTorch, whose last bits depend on the processor's instruction set. ``cuda`` has no golden run, as the
tests have no GPU.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from dsregress.model import Passed, Result, split_workload
from dsregress.store.measuring_versions import VERSIONS_FILE, MeasuringVersion, versions_of_adapter
from dsregress.wording.quantities import plural
from tests.golden_files import ACCEPT, FOLDER
from tests.paths import ROOT

FILE = FOLDER / "figures.json"
HISTORY = VERSIONS_FILE.relative_to(ROOT)
ACCEPT_FIGURES = f"{ACCEPT} tests/functional/test_golden_run.py"

#: Figures that are named one by one, of each kind.
_MOST_NAMED = 10

#: Rank -> phase -> figure -> value, of one cell. Zeros are left out.
Figures = dict[str, dict[str, dict[str, Any]]]


class GoldenRun(msgspec.Struct, frozen=True, kw_only=True):
    """Cells measured on one stack, by one measuring version of each kind: a device mode and adapter, ``sim program``."""

    stack: str
    lock_sha256: str
    versions: dict[str, int]  #: kind -> measuring version
    adapters: dict[str, str]  #: by workload
    cells: dict[str, Figures]  #: by workload

    def kind_of(self, workload: str) -> str:
        """Return the device mode and adapter of a workload's cell."""
        return f"{split_workload(workload).device} {self.adapters[workload]}"

    def encode(self) -> str:
        """Return the text of the file, with a line for each figure."""
        text = msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1).decode()
        return re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text) + "\n"


def read_golden_run() -> GoldenRun:
    """Return the committed one."""
    return msgspec.json.decode(FILE.read_bytes(), type=GoldenRun)


def golden_run(results: Sequence[Result], history: Mapping[str, Sequence[MeasuringVersion]]) -> GoldenRun:
    """Return what these results, of one stack, were measured to."""
    (stack,) = {result.cell.stack.id for result in results}
    (lock,) = {result.lock_sha256 for result in results if result.cell.environment_stack == result.cell.stack}
    cells = {result.cell.workload: _figures(result) for result in results}
    adapters = {result.cell.workload: result.cell.framework for result in results}
    kinds = {f"{split_workload(workload).device} {adapter}" for workload, adapter in adapters.items()}
    versions = {kind: _history_of(kind, history)[-1].version for kind in kinds}
    return GoldenRun(stack=stack, lock_sha256=lock, versions=versions, adapters=adapters, cells=cells)


def _history_of(kind: str, history: Mapping[str, Sequence[MeasuringVersion]]) -> tuple[MeasuringVersion, ...]:
    device, adapter = kind.split()
    return versions_of_adapter(history[device], adapter)


def _figures(result: Result) -> Figures:
    assert result.outcome == Passed(), f"{result.cell.id}: {result.outcome}"
    assert result.record is not None
    found: Figures = {}
    for rank in result.record.ranks:
        phases = {name: dataclasses.asdict(phase) for name, phase in rank.phases.items()}
        for figures in phases.values():
            del figures["seconds"]
        ideal = {name: sum(terms.values()) for name, terms in rank.ideal.items()}
        found[f"rank {rank.rank}"] = {**{name: _nonzero(each) for name, each in phases.items()}, "ideal": ideal}
    return found


def _nonzero(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if value}


def new_figures(before: GoldenRun, now: GoldenRun) -> set[str]:
    """Return the names of figures that no cell had before: they have not moved."""
    return _names(now) - _names(before)


def _names(run: GoldenRun) -> set[str]:
    phases = [phase for cell in run.cells.values() for rank in cell.values() for phase in rank.values()]
    return {name for figures in phases for name in figures}


def moved_figures(before: GoldenRun, now: GoldenRun, kind: str) -> list[str]:
    """Return each figure of a kind of cells that differs, as ``WORKLOAD, rank 0, backward: flops 3 -> 4``."""
    new_names = new_figures(before, now)
    return [
        f"{workload}, {where} {old} -> {new}"
        for workload in sorted(before.cells.keys() & now.cells.keys())
        if now.kind_of(workload) == kind
        for where, old, new in _differences(before.cells[workload], now.cells[workload])
        if where.rpartition(": ")[2] not in new_names
    ]


def _differences(before: Figures, now: Figures) -> Iterator[tuple[str, Any, Any]]:
    for rank in sorted({*before, *now}):
        ours, theirs = before.get(rank, {}), now.get(rank, {})
        for phase in dict.fromkeys((*ours, *theirs)):
            old, new = ours.get(phase, {}), theirs.get(phase, {})
            for figure in sorted({*old, *new}):
                if old.get(figure) != new.get(figure):
                    yield f"{rank}, {phase}: {figure}", old.get(figure, 0), new.get(figure, 0)


def _named(moved: Sequence[str]) -> list[str]:
    more = len(moved) - _MOST_NAMED
    return [*moved[:_MOST_NAMED], *([f"and {more} more"] if more > 0 else [])]


def complaints(
    before: GoldenRun, now: GoldenRun, history: Mapping[str, Sequence[MeasuringVersion]]
) -> tuple[list[str], list[str]]:
    """Return what must be mended by hand, and what ``--accept`` mends, each in words; two empty lists where all is well.

    Another stack, or another lock of it, may have other figures under the same versions.
    """
    by_hand, by_accepting = [], []
    if names := new_figures(before, now):
        by_accepting.append(f"the golden run has no {', '.join(sorted(names))}")
    same_stack = (before.stack, before.lock_sha256) == (now.stack, now.lock_sha256)
    for kind, version in sorted(now.versions.items()):
        device = kind.split()[0]
        accepted = before.versions.get(kind, 0)
        moved = moved_figures(before, now, kind)
        if version < accepted:
            by_hand.append(f"{kind}: {HISTORY} ends at version {version}, and version {accepted} was there already")
        elif version > accepted:
            since = [entry for entry in _history_of(kind, history) if entry.version > accepted]
            if moved or all(entry.not_in_golden_run for entry in since) or not accepted:
                by_accepting.append(f"{kind}: the golden run is that of version {accepted}, not of {version}")
            else:
                by_hand.append(
                    f"{kind}: version {version} moves no figure of the golden run. Say in its `not_in_golden_run` which "
                    f"figure moves, list the adapter in its `unmoved_adapters`, or take it out of {HISTORY}"
                )
        elif moved and same_stack:
            by_hand.append(
                f"{kind}: {plural(len(moved), 'figure')} moved, and the measuring version is still {version}:\n"
                + "\n".join(f"  {line}" for line in _named(moved))
                + f"\nIf they should, add version {version + 1} of {device} and the reason to {HISTORY}, "
                + f"then run {ACCEPT_FIGURES}"
            )
        elif moved:
            by_accepting.append(f"{kind}: {plural(len(moved), 'figure')} moved with another lock or stack")
    if before.cells.keys() != now.cells.keys() or not same_stack:
        by_accepting.append("the golden run is of other cells, or of another lock or stack")
    return by_hand, by_accepting
