"""The summary of a pull request."""

from __future__ import annotations

from dsregress.report.comparison import job_summary
from dsregress.report.context import report_context
from tests.builders.comparisons import comparison


def test_a_summary_begins_with_the_problems_folds_the_findings_and_can_be_found_again() -> None:
    text = job_summary.summary_markdown(report_context(comparison()), "https://report.example")
    first, _, folded = text.partition("<details>")
    assert text.startswith(job_summary.MARKER)
    assert "**TRAINS WRONG**" in first
    assert "after it ends" in first
    assert "| worse" not in first
    assert "noisy findings: step time" in folded
    assert "(https://report.example/finding/" in folded
    assert text.count("<details>") == text.count("</details>")
    assert "<script" not in text
    assert "@all" not in text
