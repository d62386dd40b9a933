"""A report for a pull request or a job's summary: the answer on top, all findings folded, links to the site."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.compare.metrics import BY_NAME
from dsregress.report import urls
from dsregress.report.comparison.markdown import first_screen_markdown
from dsregress.report.context import ReportContext
from dsregress.report.kinds import SIGNS
from dsregress.report.plain_text import markdown
from dsregress.report.report_view import report_view
from dsregress.report.rows import WORSE, Row, all_rows
from dsregress.wording.quantities import plural

#: GitHub cuts a comment at 65,536 characters.
_MOST_PROBLEMS, _MOST_FOLDED = 12, 25

#: A marker by which the comment is found again, and the placeholder for a site's address.
MARKER = "<!-- dsregress -->"
SITE = "{site}"


def summary_markdown(context: ReportContext, site: str = "") -> str:
    """Return GitHub-flavored Markdown, ending in a newline. ``site`` is the address of the published report, if any."""
    report = report_view(context)
    rows = all_rows(context)
    worse = [row for row in rows if row.section == WORSE]
    exact = [row for row in worse if BY_NAME[row.headline.metric].exact]
    noisy = [row for row in worse if not BY_NAME[row.headline.metric].exact]
    other = [row for row in rows if row.section != WORSE]
    lines = [MARKER, *first_screen_markdown(report.screen, _MOST_PROBLEMS)]
    if site:
        lines += [f"[The whole report]({site}/{urls.matrix_page(0)})", ""]
    folded = [("exact findings", exact), ("noisy findings: step time", noisy), ("other differences", other)]
    for title, hidden in folded:
        if hidden:
            lines += [
                f"<details><summary>{len(hidden)} {title}</summary>",
                "",
                *_row_table(hidden[:_MOST_FOLDED], site),
            ]
            more = len(hidden) - _MOST_FOLDED
            lines += [*([f"and {more} more", ""] if more > 0 else []), "</details>", ""]
    if report.not_compared:
        lines += [f"<details><summary>{plural(report.without_verdict, 'cell')} without a verdict</summary>", ""]
        lines += [*(f"- {markdown(line)}" for line in report.not_compared), "", "</details>", ""]
    if report.reproduce:
        lines += ["To reproduce problem 1:", "", "```sh", report.reproduce.replace("```", ""), "```"]
    return "\n".join(lines).rstrip() + "\n"


def _row_table(rows: Sequence[Row], site: str) -> list[str]:
    if not rows:
        return []
    lines = ["| | releases | finding | workload |", "| --- | --- | --- | --- |"]
    for row in rows:
        sign, word = SIGNS[row.kind]
        message = markdown(row.message)
        text = f"[{message}]({site}/{urls.finding_page(row.headline)})" if site else message
        cells = (f"{sign} {word}", markdown(row.stack), text, markdown(row.workload))
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]
