"""The published scripts are those that `reproduce` wrote and ran, and their page says what they showed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.paths import ROOT

FOLDER = ROOT / "docs" / "reproducers"
ANSWERS = sorted(FOLDER.glob("*.json"))
PAGE = (FOLDER / "README.md").read_text()


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda file: file.stem)
def test_a_script_is_the_one_that_was_run(answer: Path) -> None:
    assert answer.with_suffix(".py").read_text() == read(answer)["script"]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda file: file.stem)
def test_the_page_names_each_script_and_what_it_printed_in_each_release(answer: Path) -> None:
    assert f"[{answer.stem}]({answer.stem}.py)" in PAGE
    for run in read(answer)["runs"]:
        assert f"    {run['version']}, exit code {run['exit_code']}: {run['line']}" in PAGE


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda file: file.stem)
def test_a_published_script_is_confirmed(answer: Path) -> None:
    found = read(answer)
    assert found["confirmed"]
    assert [run["answer"] for run in found["runs"]] == ["bad", *["good"] * (len(found["runs"]) - 1)]
    assert len(found["runs"]) > 1


def test_no_script_is_without_its_answer() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} == {file.stem for file in ANSWERS} != set()
