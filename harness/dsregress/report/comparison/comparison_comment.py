"""A comparison for a pull request: Markdown of a dozen lines. Pure."""

from __future__ import annotations

from dsregress.report.answers.audit_comment import code_span, comment_text
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import markdown
from dsregress.report.report_view import report_view

#: The last notes say what a change is not blamed for.
_MOST_NOTES = 3


def comparison_comment(context: ReportContext) -> str:
    """Return the headline and one line for each problem, ending in a newline."""
    report = report_view(context)
    reasons = [f"**{markdown(one.releases)}** {markdown(one.sentences)}" for one in report.screen.problems]
    most_notes = _MOST_NOTES if context.comparison.checkout else 1
    rest = [markdown(report.screen.basis), *map(markdown, context.comparison.notes[-most_notes:])]
    if report.reproduce:
        rest.append(f"problem 1 again: {code_span(report.reproduce)}")
    return comment_text(report.screen.headline, reasons, rest)
