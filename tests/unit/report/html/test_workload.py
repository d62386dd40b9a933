"""The page of one workload."""

from __future__ import annotations

import re
from pathlib import Path

from dsregress.compare import Thresholds, compare
from dsregress.report import urls
from dsregress.report.context import report_context
from dsregress.report.html.site import build_site
from dsregress.report.report_view import report_view
from tests.builders.synthetic import MIB, noisy_record, result


def test_the_release_to_pin_is_the_one_that_the_problem_advises(tmp_path: Path) -> None:
    """A higher peak is a cost, no reason to leave a release."""
    higher = noisy_record(3)
    for rank in higher.ranks:
        rank.phases["backward"].device_peak_bytes += 9 * MIB
    results = [
        result("0.15.0", run=noisy_record(1)),
        result("0.16.0", run=noisy_record(2, held_mib=9)),
        result("0.16.8", run=higher),
    ]
    comparison = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    leak = report_view(report_context(comparison)).screen.sections[0].problems[0]
    assert leak.sentences.endswith("Use 0.16.8.")
    build_site(report_context(comparison, exit_code=1), tmp_path)
    page = (tmp_path / urls.workload_page(results[0].cell.workload)).read_text(encoding="utf-8")
    assert re.findall(r'<h2>Newest release (.+?)</h2><p class="big"><a href=".+?">(.+?)</a>', page) == [
        ("without wrong training, crashes, leaks or out of memory", "0.16.8"),
        ("without any finding", "0.15.0"),
    ]
