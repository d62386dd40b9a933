"""The published scripts are those that `reproduce` wrote and ran, and their page says what they showed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden_files import Golden
from tests.paths import ROOT
from tests.unit.docs import reproducer_page
from tests.unit.docs.reproducer_page import ANSWERS, FOLDER, PAGE, read


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda file: file.stem)
def test_a_script_is_the_one_that_was_run(answer: Path) -> None:
    assert answer.with_suffix(".py").read_text() == read(answer)["script"]


def test_the_page_is_what_the_answers_say(golden: Golden) -> None:
    golden(PAGE.relative_to(ROOT).as_posix(), reproducer_page.written(), folder=ROOT)


def test_each_answer_has_a_title() -> None:
    assert set(reproducer_page.titles()) == {file.stem for file in ANSWERS}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda file: file.stem)
def test_a_published_script_is_confirmed(answer: Path) -> None:
    found = read(answer)
    assert found["confirmed"]
    assert [run["answer"] for run in found["runs"]] == ["bad", *["good"] * (len(found["runs"]) - 1)]
    assert len(found["runs"]) > 1


def test_no_script_is_without_its_answer() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} == {file.stem for file in ANSWERS} != set()
