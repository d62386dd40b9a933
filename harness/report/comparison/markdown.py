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
    seen = view(comparison)
    lines = [f"### {markdown(seen.verdict)}", "", f"{markdown(seen.measured)}.", ""]
    lines += [f"- **{markdown(line)}**" for line in seen.spans]
    for table in seen.compatibility:
        lines += [*_table(table), "", *(f"- {markdown(line)}" for line in seen.patterns)]
    for section in seen.sections:
        lines += _findings(section.title, section.rows, section.more)
    lines += _section("Could not be compared", [f"- {markdown(line)}" for line in seen.not_compared])
    lines += _section("Control: the baseline against itself", [f"- {markdown(line)}" for line in seen.control])
    tables = [line for table in seen.tables for line in _table(table)]
    if tables:
        lines += ["", "<details><summary>All stacks</summary>", *tables, "", "</details>"]
    notes = [*([seen.below] if seen.below else []), *seen.notes]
    lines += _section("Notes", [f"- {markdown(line)}" for line in notes])
    if seen.worst:
        lines += ["", "To reproduce the worst finding:", "", *_code(seen.worst)]
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
