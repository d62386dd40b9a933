"""Which version of the probe measured the cells of an answer, when, and what its ranks say of the figures: those of several
versions need not be comparable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from harness.compare.summary import noted
from harness.model import Cell, Result

#: The newest result of each cell, measured where it is missing.
MeasureCells = Callable[[Sequence[Cell]], Iterable[Result]]


class MeasuredBy(msgspec.Struct, frozen=True, kw_only=True):
    """Cells that one version of the probe measured; those that took real time, on one kind of processor."""

    measuring_version: str
    hardware: str  #: the processor; empty in ``sim``, which says the same on every machine
    first_day: str  #: of the runs, in UTC: ``2026-11-21``
    last_day: str
    cells: tuple[str, ...]  #: ids


def source(result: Result) -> tuple[str, str]:
    """The version of the probe and the hardware that a figure depends on."""
    return result.measuring_version, "" if result.cell.device == "sim" else result.hardware.cpu


def measured_by(results: Iterable[Result]) -> tuple[MeasuredBy, ...]:
    """The sources of an answer's results, that of the most cells first."""
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


def notes(results: Iterable[Result]) -> tuple[str, ...]:
    """What a reader of the figures has to know, each once."""
    return tuple(dict.fromkeys(note for result in results if result.record for note in noted(result.record)))


class Recorded:
    """A ``run`` that keeps the results it returned."""

    def __init__(self, run: MeasureCells) -> None:
        self._run = run
        self.results: list[Result] = []

    def __call__(self, cells: Sequence[Cell]) -> list[Result]:
        """As the ``run`` it stands for."""
        found = list(self._run(cells))
        self.results += found
        return found
