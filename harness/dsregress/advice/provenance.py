"""Provenance of an answer's cells: the version of the probe that measured them, when, and its ranks' notes on the figures.
Figures of several versions need not be comparable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from dsregress.compare.result_summary import noted
from dsregress.model import Cell, Result

#: Returns the newest result of each cell; measures those that are missing.
MeasureCells = Callable[[Sequence[Cell]], Iterable[Result]]


class MeasuredBy(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that one version of the probe measured; outside ``sim``, on one kind of processor."""

    measuring_version: str
    hardware: str  #: the processor; empty in ``sim``, whose figures are the same on every machine
    first_day: str  #: of the runs, in UTC: ``2026-11-21``
    last_day: str
    cells: tuple[str, ...]  #: ids


def source(result: Result) -> tuple[str, str]:
    """Return the version of the probe and the processor that a result's figures depend on; no processor in ``sim``."""
    return result.measuring_version, "" if result.cell.device == "sim" else result.hardware.cpu


def measured_by(results: Iterable[Result]) -> tuple[MeasuredBy, ...]:
    """Return the sources of an answer's results, the one with the most cells first."""
    grouped: dict[tuple[str, str], list[Result]] = {}
    for result in {result.cell.id: result for result in results}.values():
        grouped.setdefault(source(result), []).append(result)
    found = []
    for (version, hardware), members in grouped.items():
        days = sorted(result.started_at[:10] for result in members)
        found.append(
            MeasuredBy(
                measuring_version=version,
                hardware=hardware,
                first_day=days[0],
                last_day=days[-1],
                cells=tuple(result.cell.id for result in members),
            )
        )
    return tuple(sorted(found, key=lambda one: (-len(one.cells), one.measuring_version, one.hardware)))


def provenance_notes(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the notes that a reader of the figures must know, each once."""
    return tuple(dict.fromkeys(note for result in results if result.record for note in noted(result.record)))


class Recorded:
    """A ``run`` that keeps the results it returned."""

    def __init__(self, run: MeasureCells) -> None:
        self._run = run
        self.results: list[Result] = []

    def __call__(self, cells: Sequence[Cell]) -> list[Result]:
        """Call the ``run`` and keep its results."""
        found = list(self._run(cells))
        self.results += found
        return found
