"""The report for a person at a terminal, 80 columns and wider."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from harness.compare import Comparison
from harness.report.plain import plain
from harness.report.rows import Row
from harness.report.tables import Table
from harness.report.view import View, view

_STYLES = {
    "failed": "bold red",
    "wrong": "bold magenta",
    "regression": "red",
    "improvement": "green",
    "changed": "yellow",
}


def show(comparison: Comparison, console: Console) -> None:
    """Prints the report."""
    console.print(render(view(comparison)))


def render(report: View) -> Group:
    """The report as one renderable. Nothing measured is ever read as markup."""
    parts: list[RenderableType] = [
        _line(report.verdict, "bold"),
        _line(report.measured),
        *_bullets(report.spans, "bold"),
    ]
    for table in report.compatibility:
        parts += _section(table.title, [_grid(table), *_bullets(report.patterns)])
    for section in report.sections:
        parts += _section(section.title, _rows(section.rows, section.more))
    parts += _section("Could not be compared", _bullets(report.not_compared))
    parts += _section("Control: the baseline against itself", _bullets(report.control))
    for table in report.tables:
        parts += _section(table.title, [_grid(table)])
    parts += _section("Notes", _bullets([*([report.below] if report.below else []), *report.notes]))
    if report.worst:
        parts += _section("To reproduce the worst finding", [Padding(_line(report.worst), (0, 0, 0, 2))])
    return Group(*parts)


def _section(title: str, body: Sequence[RenderableType]) -> list[RenderableType]:
    return [Text(), _line(title, "bold underline"), *body] if body else []


def _rows(rows: Sequence[Row], more: int) -> list[RenderableType]:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=False)
    grid.add_column("stack", no_wrap=False, overflow="fold")
    grid.add_column("finding", overflow="fold", ratio=1)
    for row in rows:
        text = Text()
        text.append(plain(row.message), _STYLES[row.kind])
        if row.workload:
            text.append(f"\n{plain(row.workload)}")
        for line in row.evidence:
            text.append(f"\n  {plain(line)}", "dim")
        if row.related:
            text.append(f"\n  with it: {plain('; '.join(row.related[:4]))}", "dim")
        if len(row.related) > 4:
            text.append(f"\n  and {len(row.related) - 4} more that moved with it", "dim")
        grid.add_row(Text(plain(row.stack)), text)
    return [grid, *([_line(f"and {more:,} more; --json FILE has all")] if more else [])]


def _grid(table: Table) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for at, heading in enumerate(table.columns):
        grid.add_column(heading, justify="left" if at in (0, len(table.columns) - 1) else "right", overflow="fold")
    for row in table.rows:
        grid.add_row(*(Text(plain(cell)) for cell in row))
    return grid


def _bullets(lines: Sequence[str], style: str = "") -> list[RenderableType]:
    return [_hanging(line, style) for line in lines]


def _hanging(line: str, style: str) -> Grid:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=1)
    grid.add_column(overflow="fold")
    grid.add_row(Text("-"), _line(line, style))
    return grid


def _line(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style, overflow="fold")
