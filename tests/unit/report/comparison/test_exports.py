"""Every format is read back by what it is for."""

from __future__ import annotations

import json
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


def test_pytorchs_benchmark_database_gets_each_metric_with_the_baselines_value() -> None:
    records = json.loads(exports.FORMATS["pytorch-benchmark"](report_context(comparison())))
    ended = [one["metric"]["benchmark_values"] for one in records if one["metric"]["name"] == "passed"]
    assert sorted(ended) == [[0.0]] * 2 + [[1.0]] * 7
    (peak,) = (
        one
        for one in records
        if one["metric"]["name"] == "backward.device_peak_bytes"
        and one["dependencies"]["deepspeed"]["version"] == "0.16.4"
    )
    assert peak["metric"]["extra_info"] == {"unit": "bytes", "direction": "lower is better"}
    assert peak["metric"]["benchmark_values"][0] > peak["metric"]["target_value"] > 0
    times = next(one["metric"] for one in records if one["metric"]["name"] == "step_time_s")
    assert len(times["benchmark_values"]) > 1  # the rounds


def test_pytorchs_benchmark_database_gets_only_columns_that_it_has() -> None:
    columns = {  # clickhouse_db_schema/benchmark.oss_ci_benchmark_v3/schema.sql
        "benchmark": {"name", "mode", "dtype", "extra_info"},
        "model": {"name", "type", "backend", "origins", "extra_info"},
        "metric": {"name", "benchmark_values", "target_value", "extra_info"},
    }
    for record in json.loads(exports.FORMATS["pytorch-benchmark"](report_context(comparison()))):
        assert record.keys() == {*columns, "dependencies"}
        for name, own in columns.items():
            assert record[name].keys() <= own
            assert all(isinstance(value, str) for value in record[name].get("extra_info", {}).values())
        for one in record["dependencies"].values():
            assert one.keys() <= {"repo", "branch", "sha", "version", "extra_info"}


def test_pytorchs_relay_gets_the_counts_of_junit() -> None:
    counts = json.loads(exports.FORMATS["pytorch-relay"](report_context(comparison())))
    assert counts == {"passed": 3, "failed": 5, "skipped": 1, "total": 9}
