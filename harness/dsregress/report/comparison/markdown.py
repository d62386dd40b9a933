"""The report for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.report.context import ReportContext
from dsregress.report.first_screen import FirstScreen
from dsregress.report.plain_text import markdown, markdown_table, plain
from dsregress.report.problem_lines import ProblemLine
from dsregress.report.report_view import report_view
from dsregress.report.rows import Row
from dsregress.report.tables import Table
from dsregress.wording.quantities import plural

#: Problems in the answer, and lines of evidence of each.
MOST_PROBLEMS = 30
_MOST_EVIDENCE = 3


def comparison_markdown(context: ReportContext) -> str:
    """Return the report as GitHub-flavored Markdown, ending in a newline: the answer, and its details folded."""
    report = report_view(context)
    lines = first_screen_markdown(report.screen)
    lines += ["<details><summary>Details</summary>", "", f"{markdown(report.measured)}."]
    for table in report.compatibility:
        lines += [*_table_lines(table), "", *(f"- {markdown(line)}" for line in report.patterns)]
    for section in report.sections:
        lines += _findings(section.title, section.rows, section.more)
    lines += _section("Could not be compared", [f"- {markdown(line)}" for line in report.not_compared])
    lines += _section("Control: the baseline against itself", [f"- {markdown(line)}" for line in report.control])
    lines += [line for table in report.tables for line in _table_lines(table)]
    notes = [*([report.below] if report.below else []), *report.notes]
    lines += _section("Notes", [f"- {markdown(line)}" for line in notes])
    lines += ["", "</details>"]
    if report.reproduce:
        lines += ["", "To reproduce problem 1:", "", *_code(report.reproduce)]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


def first_screen_markdown(screen: FirstScreen, most: int = MOST_PROBLEMS) -> list[str]:
    """Return the lines of the answer, with at most ``most`` problems, ending in an empty line."""
    said = [one for one in (screen.recommendation, screen.headline) if one]
    lines = [
        f"### {markdown(said[0])}",
        "",
        *(text for one in (*said[1:], screen.basis) for text in (markdown(one), "")),
    ]
    if screen.overview.rows:
        first, *others = ((one.label, *one.texts) for one in screen.overview.headings)
        lines += _table_rows(first, (*others, *((str(row.label), *row.words) for row in screen.overview.rows)))
        if screen.overview.more:
            lines += ["", f"and {plural(screen.overview.more, 'more workload')}"]
        lines += [""]
    if screen.figures:
        lines += [markdown(" ".join(map(str, screen.figures))), ""]
    left = most
    for section in screen.sections:
        shown = section.problems[:left]
        left -= len(shown)
        if shown:
            lines += [f"**{section.title}**", "", *(text for line in shown for text in _problem_items(line)), ""]
    count = len(screen.problems)
    return [*lines, *([f"and {plural(count - most, 'more problem')}", ""] if count > most else [])]


def _problem_items(line: ProblemLine) -> list[str]:
    evidence = [f"since {line.since}", f"until {line.until}", *line.evidence[:_MOST_EVIDENCE]]
    return [
        f"{line.number}. **{markdown(line.releases)}**: {markdown(line.sentences)}",
        *(f"   - {markdown(text)}" for text in evidence),
    ]


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


def _table_lines(table: Table) -> list[str]:
    return ["", f"**{markdown(table.title)}**", "", *_table_rows(table.columns, table.rows)]


def _table_rows(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table. Columns between the first and the last hold numbers, or single words."""
    return markdown_table(columns, rows, numbers=range(1, len(columns) - 1))


def _section(title: str, body: Sequence[str]) -> list[str]:
    return ["", f"#### {title}", "", *body] if body else []


def _code(command: str) -> list[str]:
    line = plain(command)
    fence = "```"
    while fence in line:
        fence += "`"
    return [f"{fence}sh", line, fence]
