"""The report for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from harness.compare import Comparison
from harness.report.plain import markdown, plain
from harness.report.rows import Row
from harness.report.tables import Table
from harness.report.view import view


def as_markdown(comparison: Comparison) -> str:
    """The report as GitHub-flavoured Markdown, ending in a newline."""
    report = view(comparison)
    lines = [f"### {markdown(report.verdict)}", "", f"{markdown(report.measured)}.", ""]
    lines += [f"- **{markdown(line)}**" for line in report.spans]
    for table in report.compatibility:
        lines += [*_table(table), "", *(f"- {markdown(line)}" for line in report.patterns)]
    for section in report.sections:
        lines += _findings(section.title, section.rows, section.more)
    lines += _section("Could not be compared", [f"- {markdown(line)}" for line in report.not_compared])
    lines += _section("Control: the baseline against itself", [f"- {markdown(line)}" for line in report.control])
    tables = [line for table in report.tables for line in _table(table)]
    if tables:
        lines += ["", "<details><summary>All stacks</summary>", *tables, "", "</details>"]
    notes = [*([report.below] if report.below else []), *report.notes]
    lines += _section("Notes", [f"- {markdown(line)}" for line in notes])
    if report.worst:
        lines += ["", "To reproduce the worst finding:", "", *_code(report.worst)]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def _findings(title: str, rows: Sequence[Row], more: int) -> list[str]:
    lines = ["| stack | workload | finding | evidence |", "| --- | --- | --- | --- |"]
    for row in rows:
        related = [f"with it: {'; '.join(row.related[:4])}"] if row.related else []
        evidence = "<br>".join(markdown(line) for line in (*row.evidence, *related))
        cells = (markdown(row.stack), markdown(row.workload), f"**{row.kind}**: {markdown(row.message)}", evidence)
        lines.append(f"| {' | '.join(cells)} |")
    if more:
        lines += ["", f"and {more:,} more; `--json FILE` has all"]
    return _section(title, lines)


def _table(table: Table) -> list[str]:
    head = ["", f"**{markdown(table.title)}**", "", f"| {' | '.join(table.columns)} |"]
    rule = " | ".join("---" if at in (0, len(table.columns) - 1) else "---:" for at in range(len(table.columns)))
    return [*head, f"| {rule} |", *(f"| {' | '.join(markdown(cell) for cell in row)} |" for row in table.rows)]


def _section(title: str, body: Sequence[str]) -> list[str]:
    return ["", f"#### {title}", "", *body] if body else []


def _code(command: str) -> list[str]:
    line = plain(command)
    fence = "```"
    while fence in line:
        fence += "`"
    return [f"{fence}sh", line, fence]
