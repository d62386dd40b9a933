"""The report as Markdown, word for word, and that nothing measured becomes markup."""

from __future__ import annotations

from dsregress.report.comparison import markdown
from dsregress.report.context import report_context
from tests.builders.comparisons import comparison
from tests.golden_files import Golden


def test_the_report_reads_as_expected(golden: Golden) -> None:
    golden("report.md", markdown.comparison_markdown(report_context(comparison())))


def test_hostile_text_is_inert_in_markdown() -> None:
    text = markdown.comparison_markdown(report_context(comparison()))
    assert "<script" not in text
    assert "`x`" not in text
    assert "https://" not in text
    assert "@all" not in text
    columns = {line.count(" | ") for line in text.splitlines() if line.startswith("| 0.17.0 | llama")}
    assert columns == {3}
