"""The first page."""

from __future__ import annotations

import html
from pathlib import Path

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.report.context import report_context
from dsregress.report.html.site import build_site
from dsregress.report.report_view import report_view
from tests.builders import comparisons
from tests.builders.synthetic import noisy_record, result


def first_page(comparison: Comparison, folder: Path) -> str:
    build_site(report_context(comparison, exit_code=1), folder)
    return html.unescape((folder / "index.html").read_text(encoding="utf-8"))


def test_the_first_page_says_all_of_each_problem_as_every_format_does(tmp_path: Path) -> None:
    comparison = comparisons.comparison()
    page = first_page(comparison, tmp_path)
    lines = [line for section in report_view(report_context(comparison)).screen.sections for line in section.problems]
    assert any(line.sentences.endswith("Use 0.16.8.") for line in lines)
    assert [line.sentences for line in lines if f": {line.sentences}\n" not in page] == []


def test_of_many_workloads_the_first_page_says_how_many_fare_how(tmp_path: Path) -> None:
    results = [
        result(
            version,
            variant=f"sequence_length={2**at}",
            run=noisy_record(1, held_mib=9 * (at == 3 and version == "0.16.0")),
        )
        for at in range(8)
        for version in ("0.15.0", "0.16.0")
    ]
    text = first_page(compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None), tmp_path)
    assert "Compatibility: outcomes of 8 workloads" in text
    assert '<th scope="row">0.16.0</th><td class="n">7</td><td class="n">1</td>' in text
    assert "llama_zero3_backward/sequence_length=8/cpu: passed in 0.15.0; worse in 0.16.0" in text
