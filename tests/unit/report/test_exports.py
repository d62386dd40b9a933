"""Every format is read back by what it is for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import junitparser
import pytest

from harness.report.comparison import exports, summary
from harness.report.comparison import json as json_report
from harness.report.html.badges import endpoint, standings
from tests.unit.docs.markdown import ROOT
from tests.unit.report.test_reports import comparison


def test_junit_is_read_by_a_junit_parser_with_what_is_worse_as_failures() -> None:
    read = junitparser.JUnitXml.fromstring(exports.junit(comparison()).encode())
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


def test_pytest_benchmark_compares_the_step_times(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    file.write_text(exports.pytest_benchmark(comparison()), encoding="utf-8")
    tool = shutil.which("pytest-benchmark", path=str(Path(sys.executable).parent))
    assert tool is not None
    seen = subprocess.run([tool, "compare", str(file), "--columns=median,rounds"], capture_output=True, text=True)
    assert seen.returncode == 0, seen.stderr
    assert "[0.16.8]" in seen.stdout
    assert "7 tests" in seen.stdout


def test_the_json_report_keeps_to_its_published_schema() -> None:
    schema = json.loads((ROOT / "docs" / "schema" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    report = json.loads(json_report.render(comparison(), 1))
    jsonschema.validate(report, schema)
    del report["findings"][0]["kind"]
    with pytest.raises(jsonschema.ValidationError, match="'kind' is a required property"):
        jsonschema.validate(report, schema)


def test_action_benchmark_and_bencher_tell_the_same_figures() -> None:
    action = json.loads(exports.github_action_benchmark(comparison()))
    bencher = json.loads(exports.bmf(comparison()))
    assert {(one["name"], one["value"]) for one in action} == {
        (f"{name} / {measure}", entry["value"])
        for name, measures in bencher.items()
        for measure, entry in measures.items()
    }
    assert all(one.keys() == {"name", "unit", "value", "extra"} for one in action)
    times = [entry["step-time"] for entry in bencher.values()]
    assert times
    assert all(one["lower_value"] <= one["value"] <= one["upper_value"] for one in times)


def test_a_summary_folds_what_is_noisy_and_can_be_found_again() -> None:
    text = summary.render(comparison(), "https://report.example")
    first, _, folded = text.partition("<details>")
    assert text.startswith(summary.MARKER)
    assert "after it ends" in first
    assert "a step takes" not in first
    assert "a step takes" in folded
    assert "(https://report.example/finding/" in first
    assert text.count("<details>") == text.count("</details>")
    assert "<script" not in text
    assert "@all" not in text


def test_badges_are_one_for_each_scenario_and_stack() -> None:
    told = {standing.stack.rpartition("deepspeed")[2]: standing for standing in standings(comparison())}
    assert told["0.15.4"].message == "ok on 1 workload"
    assert told["0.15.4"].colour == "brightgreen"
    assert told["0.16.0"].message == "worse: memory"
    assert told["0.17.0"].message == "worse: crash"
    assert told["0.16.8"].colour == "yellow"
    assert told["0.18.9"].message == "not measured"
    badge = json.loads(endpoint(told["0.16.0"]))
    assert badge["schemaVersion"] == 1
    assert badge["color"] == "red"
