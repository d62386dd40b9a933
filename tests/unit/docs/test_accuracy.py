"""docs/accuracy.md, and the figures that README quotes of it, are those of the published results."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli import cli
from harness.run import accuracy
from tests.paths import ROOT

BUNDLE = ROOT / "results" / "2026-11-22-accuracy.jsonl.gz"
PAGE = ROOT / "docs" / "accuracy.md"


def missing(*args: object) -> None:
    raise AssertionError(f"{BUNDLE.name} lacks a point of points.toml: simulate it and publish a new bundle")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DSREGRESS_ENVIRONMENTS", str(tmp_path / "environments"))
    monkeypatch.setattr(accuracy, "session", missing)
    made = tmp_path / "accuracy.md"
    run = CliRunner().invoke(cli, ["accuracy", "--results", str(BUNDLE), "--markdown", str(made)])
    assert made.exists(), run.output
    return made.read_text(encoding="utf-8")


def test_the_page_is_made_of_the_published_results(page: str) -> None:
    again = f"python -m harness accuracy --results results/{BUNDLE.name} --markdown docs/accuracy.md"
    assert PAGE.read_text(encoding="utf-8") == page, f"make it anew: {again}"


def test_the_readme_quotes_its_summary(page: str) -> None:
    summary = page.partition("\n**")[2].partition("**")[0]
    assert summary in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
