"""A report for a pull request or a job's summary: what repeats exactly first, what is noisy folded, links to the site."""

from __future__ import annotations

from collections.abc import Sequence

from harness.compare import Comparison
from harness.compare.metrics import BY_NAME
from harness.report.html.frame import KINDS, Linked
from harness.report.html.urls import matrix_page
from harness.report.plain import markdown
from harness.report.view import entries, view
from harness.wording.quantities import plural

#: GitHub cuts a comment at 65,536 characters.
_MOST_ROWS, _MOST_FOLDED = 12, 25

#: Written into a comment, to find it again; and what a site's address is put in for.
MARKER = "<!-- dsregress -->"
SITE = "{site}"


def render(comparison: Comparison, site: str = "") -> str:
    """GitHub-flavoured Markdown, ending in a newline. ``site`` is the address of the published report, if there is one."""
    seen = view(comparison)
    linked = [Linked.of(entry) for entry in entries(comparison)]
    worse = [one for one in linked if one.entry.section == "Worse"]
    exact = [one for one in worse if BY_NAME[one.entry.groups[0].headline.metric].exact]
    noisy = [one for one in worse if not BY_NAME[one.entry.groups[0].headline.metric].exact]
    other = [one for one in linked if one.entry.section != "Worse"]
    lines = [MARKER, f"### {markdown(seen.verdict)}", "", f"{markdown(seen.measured)}.", ""]
    if site:
        lines += [f"[The whole report]({site}/{matrix_page(0)})", ""]
    lines += _table(exact[:_MOST_ROWS], site)
    folded = [("more findings", exact[_MOST_ROWS:]), ("noisy findings: step time", noisy), ("other differences", other)]
    for title, rows in folded:
        if rows:
            lines += [f"<details><summary>{len(rows)} {title}</summary>", "", *_table(rows[:_MOST_FOLDED], site)]
            more = len(rows) - _MOST_FOLDED
            lines += [*([f"and {more} more", ""] if more > 0 else []), "</details>", ""]
    if seen.not_compared:
        lines += [f"<details><summary>{plural(len(seen.not_compared), 'cell')} without a verdict</summary>", ""]
        lines += [*(f"- {markdown(line)}" for line in seen.not_compared), "", "</details>", ""]
    if seen.worst:
        lines += ["See the worst again:", "", "```sh", seen.worst.replace("```", ""), "```"]
    return "\n".join(lines).rstrip() + "\n"


def _table(rows: Sequence[Linked], site: str) -> list[str]:
    if not rows:
        return []
    lines = ["| | releases | finding | workload |", "| --- | --- | --- | --- |"]
    for one in rows:
        sign, word = KINDS[one.entry.groups[0].headline.kind]
        message = markdown(one.entry.row.message)
        text = f"[{message}]({site}/{one.page})" if site else message
        cells = (f"{sign} {word}", markdown(one.entry.row.stack), text, markdown(one.entry.row.workload))
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]
