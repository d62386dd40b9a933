"""The report as JSON: its keys, its schema, its file."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from dsregress.errors import ResultsError
from dsregress.report.comparison import json as json_report
from dsregress.report.context import report_context
from tests.builders.comparisons import comparison
from tests.golden_files import Golden
from tests.paths import ROOT


def test_the_report_reads_as_expected(golden: Golden) -> None:
    golden(
        "report.json",
        json.dumps(json.loads(json_report.comparison_json(report_context(comparison(), exit_code=1))), indent=1) + "\n",
    )


def test_json_has_at_least_the_promised_keys() -> None:
    report = json.loads(json_report.comparison_json(report_context(comparison())))
    assert report["schema"] == 2
    assert report["baseline"].endswith("deepspeed0.15.0")
    assert report["stacks"][0].keys() >= {"id", "versions"}
    cell = report["cells"][0]
    assert cell.keys() >= {"id", "stack", "scenario", "variant", "device", "outcome", "stage", "signature", "metrics"}
    assert cell["metrics"].keys() >= {"backward.device_peak_bytes", "step_time_s", "init_s", "loss_error"}
    promised = {"cell", "stack", "scenario", "variant", "device", "metric", "phase", "kind", "value", "baseline_value"}
    for found in report["findings"]:
        assert found.keys() >= promised | {"ratio", "unit", "significant", "relevant", "message"}
    assert {found["kind"] for found in report["findings"]} == {
        *("regression", "improvement", "changed", "wrong", "failed"),
    }


def test_json_has_every_finding_and_marks_the_headlines() -> None:
    seen = comparison()
    report = json.loads(json_report.comparison_json(report_context(seen)))
    assert len(report["findings"]) == len(seen.findings)
    assert sum(found["headline"] for found in report["findings"]) == len(seen.groups)


def test_the_json_report_keeps_to_its_published_schema() -> None:
    schema = json.loads((ROOT / "docs" / "schema" / "report.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    report = json.loads(json_report.comparison_json(report_context(comparison(), exit_code=1)))
    jsonschema.validate(report, schema)
    del report["findings"][0]["kind"]
    with pytest.raises(jsonschema.ValidationError, match="'kind' is a required property"):
        jsonschema.validate(report, schema)


def test_a_json_report_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="give --json another place"):
        json_report.write_comparison_json(report_context(comparison()), tmp_path / "nowhere" / "report.json")
    (tmp_path / "folder").mkdir()
    with pytest.raises(ResultsError):
        json_report.write_comparison_json(report_context(comparison()), tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
