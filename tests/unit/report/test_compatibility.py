"""The matrix of a sweep: one word for each release and workload, and what a person reads of it."""

from __future__ import annotations

from dsregress.compare import Comparison, Thresholds, compare
from dsregress.model import Failed, OutOfMemory, Result, Skipped, TimedOut
from dsregress.probe.border.wire import RunRecord
from dsregress.report import compatibility
from dsregress.report.comparison import markdown
from dsregress.report.context import report_context
from dsregress.report.report_view import report_view
from dsregress.report.tables import MOST_TABLES
from tests.builders import synthetic
from tests.builders.synthetic import MIB, result


def held(mib: int) -> RunRecord:
    record = synthetic.record()
    for rank in record.ranks:
        rank.phases["backward"].device_retained_bytes += mib * MIB
    return record


def wrong() -> RunRecord:
    record = synthetic.record()
    assert record.ranks[0].numerics is not None
    record.ranks[0].numerics.gradient_norm_error = 4.0
    return record


def sweep() -> list[Result]:
    """Eight workloads on three releases; each release has a fault of its own."""
    found = [result(release, variant=f"v{at}") for release in ("0.15.0", "0.16.4") for at in range(4)]
    found += [result("0.15.0", variant=f"v{at}") for at in range(4, 8)]
    found += [
        result("0.16.4", variant="v4", run=held(64)),
        result("0.16.4", variant="v5", run=wrong()),
        result("0.16.4", variant="v6", outcome=Failed("step", "AssertionError")),
        result("0.16.4", variant="v7", outcome=OutOfMemory("backward")),
    ]
    found += [result("0.17.0", variant=f"v{at}") for at in range(4)]
    found += [result("0.17.0", variant=f"v{at}", outcome=Failed("install", "no wheel")) for at in (4, 5)]
    found += [result("0.17.0", variant=f"v{at}", outcome=TimedOut("step", 60.0)) for at in (6, 7)]
    found += [result("0.18.0", variant=f"v{at}", outcome=Failed("import", "ImportError: gone")) for at in range(8)]
    return found


def compared(results: list[Result]) -> Comparison:
    return compare(results, results[0].cell.stack.id, Thresholds(), lambda _: None)


def test_each_release_has_one_word_for_each_workload() -> None:
    seen = compatibility.matrix(report_context(compared(sweep())))
    assert [name.split("/")[1] for name in seen.workloads] == [f"v{at}" for at in range(8)]
    assert list(seen.words.values()) == [
        ("passed",) * 8,
        ("passed",) * 4 + ("worse", "wrong", "crashed", "out of memory"),
        ("passed",) * 4 + ("does not install",) * 2 + ("hung",) * 2,
        ("does not import",) * 8,
    ]


def test_what_was_skipped_or_broken_by_the_harness_says_nothing_about_the_release() -> None:
    results = [
        result("0.15.0"),
        result("0.16.4", outcome=Skipped("needs a GPU")),
        result("0.16.8", outcome=Failed("harness", "no record was left")),
    ]
    assert [words for (words,) in compatibility.matrix(report_context(compared(results))).words.values()] == [
        "passed",
        "not run",
        "not run",
    ]


def test_a_release_that_the_harness_failed_on_everywhere_is_one_line() -> None:
    broken = [result("0.16.4", variant=f"v{at}", outcome=Failed("harness", "no record was left")) for at in range(8)]
    comparison = compared([result("0.15.0", variant=f"v{at}") for at in range(8)] + broken)
    assert report_view(report_context(comparison)).patterns == (
        "every workload: not run in 0.16.4 (no record was left)",
    )


def test_counts_leave_out_the_words_that_nobody_comes_to() -> None:
    comparison = compared(sweep()[:12])
    headings, rows = compatibility.counts(compatibility.matrix(report_context(comparison)), comparison.names)
    assert headings == ("stack", "passed", "not run")
    assert rows == [("0.15.0", "8", ""), ("0.16.4", "4", "4")]


def test_a_sweep_is_reported_release_by_release_and_by_what_is_alike() -> None:
    comparison = compared(sweep())
    seen = report_view(report_context(comparison))
    assert seen.compatibility[0].rows == (
        ("0.15.0", "8", "", "", "", "", "", "", ""),
        ("0.16.4", "4", "1", "1", "1", "1", "", "", ""),
        ("0.17.0", "4", "", "", "", "", "2", "", "2"),
        ("0.18.0", "", "", "", "", "", "", "8", ""),
    )
    assert seen.patterns == (
        "every workload: does not import in 0.18.0 (ImportError: gone)",
        "llama_zero3_backward/v4/cpu: passed in 0.15.0; worse in 0.16.4; does not install in 0.17.0 (no wheel)",
        "llama_zero3_backward/v5/cpu: passed in 0.15.0; wrong in 0.16.4; does not install in 0.17.0 (no wheel)",
        "llama_zero3_backward/v6/cpu: passed in 0.15.0; crashed in 0.16.4 (AssertionError); hung in 0.17.0",
        "llama_zero3_backward/v7/cpu: passed in 0.15.0; out of memory in 0.16.4; hung in 0.17.0",
    )
    text = markdown.comparison_markdown(report_context(comparison))
    assert "**Compatibility: outcomes of 8 workloads**\n\n| stack | passed | worse | wrong | crashed |" in text


def test_a_few_workloads_have_their_tables_and_no_matrix() -> None:
    few = [result("0.15.0", variant=f"v{at}") for at in range(MOST_TABLES)]
    assert (
        report_view(report_context(compared(few))).compatibility,
        report_view(report_context(compared(few))).patterns,
    ) == ((), ())
