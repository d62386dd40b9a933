"""The page of one workload."""

from __future__ import annotations

import re
from pathlib import Path

from dsregress.advisories.matching import KnownJob
from dsregress.advisories.measured_jobs import reader_facts
from dsregress.advisories.pinning import choose_release
from dsregress.advisories.shipped import read_advisories
from dsregress.compare import Thresholds, compare
from dsregress.report import urls
from dsregress.report.context import report_context
from dsregress.report.html.site import build_site
from dsregress.report.report_view import report_view
from dsregress.report.verdict_words import basis_text, settings_text
from tests.builders.known_runs import QUARTER, compared, ran
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
    assert re.findall(r'<h2>Release to pin</h2><p class="big"><a href=".+?">(.+?)</a>(.*?)</p>', page) == [
        ("0.16.8", "")
    ]


def test_the_release_to_pin_is_that_of_the_advisories_with_what_is_to_be_set(tmp_path: Path) -> None:
    """In the words of `recommend`. A release that they rule out is not advised, also where it was not seen to fail."""
    results = [ran("0.16.8", QUARTER), ran("0.18.3", QUARTER, error=30), ran("0.18.5", QUARTER)]
    context = report_context(compared(*results))
    build_site(context, tmp_path)
    page = (tmp_path / urls.workload_page(results[0].cell.workload)).read_text(encoding="utf-8")
    ((name, words),) = re.findall(r'<h2>Release to pin</h2><p class="big"><a href=".+?">(.+?)</a>(.*?)</p>', page)
    facts = reader_facts(results[0].cell.workload, results[0].cell.parameters)
    pin = choose_release(
        read_advisories(),
        KnownJob(versions=results[0].cell.stack.versions, facts=facts),
        "deepspeed",
        ["0.16.8", "0.18.3", "0.18.5"],
    )
    assert pin.answer is not None
    assert name == pin.release == "0.16.8"
    assert words == settings_text(pin.answer) + basis_text(pin.answer)
    release = (tmp_path / urls.release_page(results[1].cell.stack.id)).read_text(encoding="utf-8")
    assert "Not for 1 of the 1 workload measured." in release
    assert "<dt>DSR-2026-0001 The gradient is divided by the accumulation once per output of the model</dt>" in release
