"""Questions that engineers have, put to the advisories of this repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from dsregress.advisories.auditing import audit_job
from dsregress.advisories.matching import Match
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import judge_upgrade
from dsregress.cli import cli
from dsregress.report.verdict_words import upgrade_headline
from tests.unit.advisories.questions import QUESTIONS, Question, ids, stated

#: A number that grows with the advisories.
_COUNT = re.compile(r"\d+ advisor(y|ies) not run")


def test_there_are_questions_of_every_verdict() -> None:
    assert len({one.name for one in QUESTIONS}) == len(QUESTIONS) >= 60
    assert {one.verdict for one in QUESTIONS} == {"", "yes", "if set", "no", "unknown"}


@pytest.mark.parametrize("question", [one for one in QUESTIONS if not one.to], ids=lambda one: one.name)
def test_a_job_as_it_is(question: Question) -> None:
    found = audit_job(read_advisories(), stated(question).job)
    assert ids(found.concerned) == question.concerned


@pytest.mark.parametrize("question", [one for one in QUESTIONS if one.to], ids=lambda one: one.name)
def test_an_upgrade(question: Question) -> None:
    old = stated(question)
    new = old.going_to(question.to)
    found = judge_upgrade(read_advisories(), old.job, new.job)
    assert found.verdict.value == question.verdict
    assert ids(found.against) == question.against
    assert tuple(remedy.text for one in found.conditions for remedy in one.remedies) == question.remedies
    assert found.instead == question.instead
    assert ids(one for one in found.gained if one.match is Match.CONCERNED) == question.gained
    assert {release for one in found.skipped for release in one.releases} == set(question.skip)
    said = upgrade_headline(found, old, new)
    assert question.says in ("", _COUNT.sub("N advisories not run", said))
    assert found.not_run == () or not said.partition(": ")[2].startswith("yes") or " not run" in said


@pytest.mark.slow
def test_the_commands_say_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`audit` and `upgrade`, with files and options, and without any results."""
    monkeypatch.chdir(tmp_path)
    for question in [one for one in QUESTIONS if one.to.keys() == {"deepspeed"}][::6]:
        facts = [word for fact in question.facts for word in ("--set", fact)]
        pins = "".join(f"{name}=={version}\n" for name, version in question.job.items())
        old = stated(question)
        new = old.going_to(question.to)
        expected = upgrade_headline(judge_upgrade(read_advisories(), old.job, new.job), old, new)
        for command in (["audit", "-r", "-"], ["upgrade", "--from", "-"]):
            words = [*command, *facts, "--to", question.to["deepspeed"]]
            said = CliRunner().invoke(cli, words, input=pins, standalone_mode=False, catch_exceptions=False)
            assert said.stdout.splitlines()[0] == expected
