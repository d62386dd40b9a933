"""`fit`, `remedies` and `explain` on published results: answers without an environment, by the probe that measured them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dsregress.cli import cli
from tests.paths import ROOT

DEFAULT_SET = ROOT / "results" / "2026-11-26.jsonl.gz"
WORKLOADS = ROOT / "results" / "2026-11-21-workloads.jsonl.gz"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a project that has neither results nor environments, and must get none."""
    text = (
        (ROOT / "pyproject.toml").read_text().replace('scenarios = "scenarios"', f'scenarios = "{ROOT / "scenarios"}"')
    )
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    yield
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".json"] == ["pyproject.toml"]


def say(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--results", str(WORKLOADS)], catch_exceptions=False)


def test_fit_answers_for_the_releases_that_are_stored() -> None:
    said = say("fit", "llama3_70b_zero3", "--gpu", "A800-80G", "--ranks", "32", "--json", "fit.json")
    assert said.exit_code == 0
    has = "the bundle has deepspeed 0.15.0, 0.16.4, with transformers 4.57.6; name other releases to measure them"
    assert has in said.stderr
    assert "0.16.4 on A800-80G: fits on none of 32 ranks" in said.stdout
    assert said.stdout.endswith("Measured by version 99033977 of the probe, 2026-11-21.\n")
    answer = json.loads(Path("fit.json").read_bytes())
    assert [line["fits"] for line in answer["lines"]] == [True, False]
    (source,) = answer["measured_by"]
    assert source["measuring_version"] == "99033977"
    assert len(source["cells"]) == 2


def test_fit_answers_at_several_scales_for_the_release_that_has_them_all() -> None:
    said = say("fit", "llama3_70b_zero3", "--gpu", "A800-80G", "--ranks", "16,32,64")
    assert said.exit_code == 0
    assert "0.16.4 on A800-80G: fits on none of 16, 32, 64 ranks" in said.stdout


def test_remedies_answer_with_their_combinations() -> None:
    said = say("remedies", "llama3_70b_zero3", "--gpu", "A800-80G", "--json", "remedies.json")
    assert said.exit_code == 0
    (answer,) = json.loads(Path("remedies.json").read_bytes())["answers"]
    assert answer["stack"]["versions"]["deepspeed"] == "0.16.4"
    assert len(answer["combinations_tried"]) == 3
    assert answer["best_combination"] == ["reentrant checkpointing", "offload both", "expandable segments"]
    assert len(answer["measured_by"]) == 1


def test_explain_shows_what_the_bundle_has_explained() -> None:
    wanted = "0.16.0/llama_zero3_backward/gradient_checkpointing=non_reentrant/cpu"
    said = CliRunner().invoke(
        cli, ["explain", wanted, "--results", str(DEFAULT_SET), "--moment", "backward.device_peak_bytes"],
        catch_exceptions=False,
    )  # fmt: skip
    assert (said.exit_code, said.stderr) == (0, "")
    assert "backward, at its peak (device_peak_bytes): 3,009,101 B, rank 0" in said.stdout
