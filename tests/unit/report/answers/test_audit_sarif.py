"""SARIF of `audit`: valid by its schema, with the file that states why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from dsregress.cli import cli
from tests.paths import ROOT

SCHEMA = json.loads((Path(__file__).parent / "sarif_schema" / "schema.json").read_bytes())
JOB = ("-r", "docs/upgrade/requirements.txt", "--config", "docs/upgrade/ds_zero3.json")
LORA = ("--set", "lora=yes", "--set", "trainer=yes")


def run_of(*words: str) -> dict[str, Any]:
    """Return the only run of the log, which is valid, of the job of the page."""
    said = CliRunner().invoke(
        cli, ["audit", *JOB, *words, "--sarif", "-"], standalone_mode=False, catch_exceptions=False
    )
    log = json.loads(said.stdout)
    jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.Draft4Validator.FORMAT_CHECKER).validate(log)
    (found,) = log["runs"]
    return dict(found)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("words", [(), LORA, (*LORA, "--to", "0.19.8"), ("--to", "0.19.2"), ("--to", "0.99.0")])
def test_every_answer_is_valid_and_every_result_has_its_rule(words: tuple[str, ...]) -> None:
    found = run_of(*words)
    rules = [one["id"] for one in found["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules)) > 0
    assert {one["ruleId"] for one in found["results"]} == set(rules)
    assert all((one["kind"] == "fail") is (one["level"] != "none") for one in found["results"])


def test_what_concerns_the_job_is_an_error_at_the_files_that_state_it() -> None:
    found = run_of(*LORA)
    (result,) = [one for one in found["results"] if one["ruleId"] == "DSR-2026-0015"]
    assert (result["kind"], result["level"]) == ("fail", "error")
    assert result["message"]["text"].startswith("LoRA with Trainer under DeepSpeed ends in torch's schedule")
    places = [one["physicalLocation"]["artifactLocation"]["uri"] for one in result["locations"]]
    assert places == ["docs/upgrade/requirements.txt", "docs/upgrade/ds_zero3.json"]
    print_ = result["partialFingerprints"]["advisoryAndReleases/v1"]
    assert print_ == "DSR-2026-0015, torch 2.13.0, transformers 4.57.6"


def test_what_was_not_stated_is_for_review_and_what_was_not_run_is_open() -> None:
    found = run_of(*LORA, "--to", "0.19.8", "--set", "quantized_weights=yes")
    kinds = {one["ruleId"]: one["kind"] for one in found["results"]}
    assert (kinds["DSR-2026-0015"], kinds["DSR-2026-0083"]) == ("fail", "open")
    assert "review" in kinds.values()
    assert "informational" in {one["kind"] for one in run_of()["results"]}
    assert found["properties"]["answer"].startswith("deepspeed 0.16.8 -> 0.19.8: yes, if you ")


def test_an_advisory_that_is_ignored_is_suppressed() -> None:
    found = run_of(*LORA, "--ignore", "DSR-2026-0015")
    (result,) = [one for one in found["results"] if one["ruleId"] == "DSR-2026-0015"]
    assert result["suppressions"] == [{"kind": "external"}]
