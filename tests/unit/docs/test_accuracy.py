"""results/accuracy.md, the figures that README quotes of it, and what estimates of step time are calibrated on are those of
the published results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsregress.advice.gpus import estimate
from tests.accuracy import simulated
from tests.accuracy.__main__ import main
from tests.paths import ROOT

BUNDLE = ROOT / "results" / "2026-11-27-accuracy.jsonl.gz"
PAGE = ROOT / "results" / "accuracy.md"

pytestmark = pytest.mark.slow  # all tests need the page


def missing(*args: object) -> None:
    raise AssertionError(f"{BUNDLE.name} lacks a point of points.toml: simulate it and publish a new bundle")


@pytest.fixture(scope="module")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the page and the JSON, of the published results."""
    folder = tmp_path_factory.mktemp("accuracy")
    page, values = folder / "accuracy.md", folder / "accuracy.json"
    given = ["--results", str(BUNDLE), "--markdown", str(page), "--json", str(values)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DSREGRESS_ENVIRONMENTS", str(folder / "environments"))
        patched.setattr(simulated, "open_session", missing)
        code = main(given)
    assert code == 0
    assert page.exists()
    return folder


@pytest.fixture
def page(answer: Path) -> str:
    return (answer / "accuracy.md").read_text(encoding="utf-8")


def test_the_page_is_made_of_the_published_results(page: str) -> None:
    again = f"nox -s accuracy -- --results results/{BUNDLE.name} --markdown results/accuracy.md"
    assert PAGE.read_text(encoding="utf-8") == page, f"make it anew: {again}"


def test_the_readme_quotes_its_summary(page: str) -> None:
    summary = page.partition("\n**")[2].partition("**")[0]
    assert summary in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())


def test_estimates_of_step_time_are_calibrated_on_the_published_jobs(answer: Path) -> None:
    found = json.loads((answer / "accuracy.json").read_bytes())["calibration"]
    assert {kind: round(factor, 2) for kind, factor in found["factors"].items()} == estimate.FACTORS
    assert round(found["factor_elsewhere"], 2) == estimate.FACTOR_ELSEWHERE
    largest = [round(max(map(abs, found[errors].values())), 2) for errors in ("errors", "errors_elsewhere")]
    assert largest == [estimate.LARGEST_ERROR, estimate.LARGEST_ERROR_ELSEWHERE]
