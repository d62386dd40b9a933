"""Figures of a benchmark, and their formats."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

import msgspec


class BenchmarkFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured quantity. Ratios are of two things measured in the same run."""

    section: str
    what: str
    value: float  #: the median, where it was measured several times
    unit: str
    low: float | None = None  #: smallest and largest, where it was measured several times
    high: float | None = None
    goal: str = ""  #: the target value; empty without one


class MachineDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The machine of a benchmark, and its date."""

    date: str
    cpu: str
    cores: int
    memory_gib: float
    python: str
    load: float  #: runnable processes before the run: above 0.5 a core, times say more about the others


def measured(section: str, what: str, values: Sequence[float], unit: str, goal: str = "") -> BenchmarkFigure:
    """Return repeats as one figure."""
    spread = (min(values), max(values)) if len(values) > 1 else (None, None)
    middle = statistics.median(values)
    return BenchmarkFigure(
        section=section, what=what, value=middle, unit=unit, low=spread[0], high=spread[1], goal=goal
    )


def lines(machine: MachineDescription, figures: Sequence[BenchmarkFigure]) -> list[str]:
    """Return the figures for the terminal: one line each, aligned."""
    shown = [f"{machine.cpu}, {machine.cores} cores, {machine.memory_gib:.0f} GiB, Python {machine.python}"]
    shown += [f"{machine.date}, load before the run {machine.load:.1f}"]
    width = max((len(figure.what) for figure in figures), default=0)
    section = ""
    for figure in figures:
        if figure.section != section:
            section = figure.section
            shown += ["", section]
        spread = f"   [{_number(figure.low)}, {_number(figure.high)}]" if figure.low is not None else ""
        goal = f"   (goal: {figure.goal})" if figure.goal else ""
        shown.append(f"  {figure.what:<{width}}  {_number(figure.value):>10} {figure.unit}{spread}{goal}")
    return shown


def write(file: Path, machine: MachineDescription, figures: Sequence[BenchmarkFigure]) -> None:
    """Write the figures as JSON, for programs. Raise OSError."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode({"schema": 1, "machine": machine, "figures": figures})))


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
