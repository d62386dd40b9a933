"""What a person reads in a terminal, word for word, and that nothing measured can act on it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.compare import Comparison, Thresholds, compare
from harness.model import Failed
from harness.report.comparison import terminal
from tests.builders.comparisons import comparison
from tests.builders.synthetic import result
from tests.golden_files import Golden


def on_terminal(seen: Comparison, width: int) -> str:
    stream = io.StringIO()
    terminal.show(seen, Console(file=stream, width=width, force_terminal=False, color_system=None))
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("width", [80, 120])
def test_the_report_reads_as_expected(width: int, golden: Golden) -> None:
    golden(f"report-{width}.txt", on_terminal(comparison(), width))


def test_nothing_worse_is_said_with_what_was_measured() -> None:
    results = [result("0.15.0"), result("0.16.8")]
    seen = compare(results, results[0].cell.stack.id, Thresholds(), lambda r: None)
    text = on_terminal(seen, 100)
    assert text.startswith("Nothing is worse than the baseline\nMeasured deepspeed 0.15.0, 0.16.8 on 1 workload")
    assert "To reproduce the worst finding" not in text
    assert "Control: the baseline against itself" in text


@pytest.mark.parametrize("width", [80, 100])
def test_hostile_text_reaches_no_terminal(width: int) -> None:
    text = on_terminal(comparison(), width)
    assert "[red]Boom[/red]" in text  # shown as it is, not obeyed
    assert all(char.isprintable() or char == "\n" for char in text)
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", range(40, 121, 8))
def test_no_line_of_a_report_is_a_command_to_a_ci_system(width: int) -> None:
    signature = "RuntimeError: " + "".join(f"{'x' * length} ::error file=a.py::no ##[error]no " for length in range(40))
    failed = result("0.16.4", outcome=Failed("init", signature, signature))
    seen = compare([result("0.15.0"), failed], result("0.15.0").cell.stack.id, Thresholds(), lambda r: None)
    text = on_terminal(seen, width)
    assert "error" in text
    for line in text.splitlines():
        assert not line.strip().startswith("::")
        assert "##[" not in line
