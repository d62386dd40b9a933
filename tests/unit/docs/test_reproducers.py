"""The published scripts are those that `reproduce` wrote and ran, and their page says what they showed."""

from __future__ import annotations

import pytest

from dsregress.model import Verdict
from dsregress.report.stored_answers import StoredReproduction
from tests.golden_files import Golden
from tests.paths import ROOT
from tests.unit.docs import reproducer_page
from tests.unit.docs.reproducer_page import FOLDER, PAGE

ANSWERS = reproducer_page.answers()


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_script_is_the_one_that_was_run(answer: StoredReproduction) -> None:
    assert (FOLDER / f"{answer.name}.py").read_text() == answer.script


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_script_is_as_it_would_be_written_now(answer: StoredReproduction) -> None:
    """Where it is not, `reproduce` writes it again and runs it: its FINDING is the answer's file."""
    assert reproducer_page.composed(answer) == answer.script


def test_the_page_is_what_the_answers_say(golden: Golden) -> None:
    golden(PAGE.relative_to(ROOT).as_posix(), reproducer_page.written(), folder=ROOT)


def test_each_answer_has_a_title() -> None:
    assert reproducer_page.known().titles.keys() == ANSWERS.keys()


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_published_script_is_confirmed(answer: StoredReproduction) -> None:
    assert answer.confirmed
    assert [run.answer for run in answer.runs] == [Verdict.BAD, *[Verdict.GOOD] * (len(answer.runs) - 1)]
    assert len(answer.runs) > 1


def test_each_script_by_hand_is_listed() -> None:
    assert reproducer_page.by_hand().keys() == {file.stem for file in reproducer_page.BY_HAND.glob("*.py")}


def test_no_script_is_without_its_answer() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} == ANSWERS.keys() != set()
