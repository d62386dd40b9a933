"""A comparison for a pull request: Markdown of a dozen lines. Pure."""

from __future__ import annotations

from dsregress.report.answers.audit_comment import code_span, comment_text
from dsregress.report.context import ReportContext
from dsregress.report.plain_text import markdown
from dsregress.report.report_view import report_view


def comparison_comment(context: ReportContext) -> str:
    """Return the headline and one line for each problem, ending in a newline."""
    report = report_view(context)
    reasons = [f"**{markdown(one.releases)}** {markdown(one.sentences)}" for one in report.screen.problems]
    rest = [markdown(report.screen.basis), *map(markdown, context.comparison.notes[-1:])]
    if report.reproduce:
        rest.append(f"problem 1 again: {code_span(report.reproduce)}")
    return comment_text(report.screen.headline, reasons, rest)
