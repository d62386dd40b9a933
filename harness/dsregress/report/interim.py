"""The problems of one workload in lines, while others still run."""

from __future__ import annotations

from dsregress.advice.assessment import assess
from dsregress.compare import Comparison
from dsregress.report.context import report_context
from dsregress.report.plain_text import plain
from dsregress.report.problem_lines import problem_lines


def interim_lines(comparison: Comparison) -> list[str]:
    """Return a line for each problem, the gravest first, without what merely costs more. Raise ResultsError."""
    context = report_context(comparison)
    return [
        plain(f"{line.releases}: {line.text}{f' ({known})' if (known := ', '.join(line.advisories)) else ''}")
        for line in problem_lines(context, assess(comparison, context.rooms))
        if not line.kind.is_cost
    ]
