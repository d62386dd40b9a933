"""The summary of a pull request."""

from __future__ import annotations

from harness.report.comparison import summary
from tests.builders.comparisons import comparison


def test_a_summary_folds_what_is_noisy_and_can_be_found_again() -> None:
    text = summary.as_markdown(comparison(), "https://report.example")
    first, _, folded = text.partition("<details>")
    assert text.startswith(summary.MARKER)
    assert "after it ends" in first
    assert "a step takes" not in first
    assert "a step takes" in folded
    assert "(https://report.example/finding/" in first
    assert text.count("<details>") == text.count("</details>")
    assert "<script" not in text
    assert "@all" not in text
