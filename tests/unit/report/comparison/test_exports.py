"""Every format is read back by what it is for."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import junitparser
import pytest

from dsregress.report.comparison import exports
from dsregress.report.context import report_context
from tests.builders.comparisons import comparison


def test_junit_is_read_by_a_junit_parser_with_what_is_worse_as_failures() -> None:
    read = junitparser.JUnitXml.fromstring(exports.junit(report_context(comparison())).encode())
    assert {suite.name: (suite.tests, suite.failures, suite.errors, suite.skipped) for suite in read} == {
        "0.15.0": (1, 0, 0, 0),
        "0.15.4": (1, 0, 0, 0),
        "0.16.0": (1, 1, 0, 0),
        "0.16.4": (1, 1, 0, 0),
        "0.16.8": (1, 1, 0, 0),
        "0.17.0": (1, 1, 0, 0),
        "0.17.6": (1, 1, 0, 0),
        "0.18.9": (1, 0, 0, 1),
        "0.19.8": (1, 0, 0, 0),
    }
    assert (read.tests, read.failures, read.skipped) == (9, 5, 1)


@pytest.mark.slow
def test_pytest_benchmark_compares_the_step_times(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text(exports.pytest_benchmark(report_context(comparison())), encoding="utf-8")
    tool = shutil.which("pytest-benchmark", path=str(Path(sys.executable).parent))
    assert tool is not None
    seen = subprocess.run([tool, "compare", str(file), "--columns=median,rounds"], capture_output=True, text=True)
    assert seen.returncode == 0, seen.stderr
    assert "[0.16.8]" in seen.stdout
    assert "7 tests" in seen.stdout
