"""The questions put to the surfaces about measured workloads: badges, pages, JUnit and issue texts. The workload of a
question's job has the answer of `audit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import msgspec
import pytest

from dsregress.advice import known_problems
from dsregress.advisories.advisory import Advisory, Ruling
from dsregress.advisories.shipped import read_advisories
from dsregress.advisories.upgrading import UpgradeAnswer, Verdict, judge_release
from dsregress.compare.metrics import GRADIENT_NORM_ERROR
from dsregress.model import Result
from dsregress.report.advisory_words import remedy_request
from dsregress.report.answers import reproduce_answer, upstream_issue
from dsregress.report.comparison import exports
from dsregress.report.context import ReportContext, report_context
from dsregress.report.html.badges import standings
from dsregress.report.release_verdicts import ReleaseVerdicts
from dsregress.report.report_view import report_view
from dsregress.report.verdict_words import basis_text, settings_text
from tests.builders.known_runs import QUARTER, compared, ran
from tests.unit.advisories.questions import QUESTIONS, Question, ids, stated

RIGHT, WRONG = 0.2, 60.0  #: distances from the truth in tolerances

UPGRADES = [one for one in QUESTIONS if one.to.keys() == {"deepspeed"} and one.facts]


def answer_of(question: Question) -> UpgradeAnswer:
    """Return the answer on the release that the question goes to, as of a job that has no other."""
    job = stated(question).going_to(question.to).job
    return judge_release(read_advisories(), job, "deepspeed")


def asked(
    question: Question, monkeypatch: pytest.MonkeyPatch, *, crash: str = "", error: float = RIGHT
) -> ReportContext:
    """Return the context of two runs, of the question's releases and of its job. The new one ends by ``crash``, or its
    gradient is ``error`` tolerances from the truth."""
    facts = stated(question).job.facts

    def own_facts(workload: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        return facts

    def as_they_are(found: Mapping[str, Any]) -> Mapping[str, Any]:
        return found

    monkeypatch.setattr(known_problems, "as_readers", as_they_are)
    for module in (known_problems, reproduce_answer):
        monkeypatch.setattr(module, "job_facts", own_facts)
    old, new = (_run(question, version) for version in (question.job["deepspeed"], question.to["deepspeed"]))
    if crash or error != RIGHT:
        new = _run(question, question.to["deepspeed"], crash, error)
    return report_context(compared(old, new))


def _run(question: Question, deepspeed: str, crash: str = "", error: float = RIGHT) -> Result:
    result = ran(deepspeed, QUARTER, crash=crash, error=error)
    stack = msgspec.structs.replace(result.cell.stack, versions={**question.job, "deepspeed": deepspeed})
    return msgspec.structs.replace(result, cell=msgspec.structs.replace(result.cell, stack=stack))


@pytest.mark.parametrize("question", [one for one in UPGRADES if one.verdict != "unknown"], ids=lambda one: one.name)
def test_a_badge_and_a_page_answer_as_audit_does(question: Question, monkeypatch: pytest.MonkeyPatch) -> None:
    context, answer = asked(question, monkeypatch), answer_of(question)
    stack = next(one for one in context.stacks if context.stacks[one].versions["deepspeed"] == question.to["deepspeed"])
    (workload,) = context.comparison.cells.workloads
    verdicts = ReleaseVerdicts(context)
    found = verdicts.of(stack, workload)
    assert found.against == ids(answer.against)
    assert found.conditions == tuple(one.matched.advisory.id for one in answer.conditions)
    advised = verdicts.advised(stack, workload)
    assert advised is not None
    assert settings_text(advised) + basis_text(advised) == settings_text(answer) + basis_text(answer)
    (badge,) = [one for one in standings(context, verdicts) if one.release == question.to["deepspeed"]]
    colours = {Verdict.NO: "red", Verdict.IF_SET: "yellow", Verdict.YES: "brightgreen", Verdict.UNKNOWN: "brightgreen"}
    assert badge.colour == colours[answer.verdict]
    words = {Verdict.NO: "no: DSR-", Verdict.IF_SET: "yes, if set: DSR-"}
    assert badge.message.startswith(words.get(answer.verdict, "ok on 1 workload"))


def ending_of(context: ReportContext, version: str) -> ElementTree.Element:
    """Return how JUnit says that the one case of a release ended."""
    (case,) = [
        each
        for suite in ElementTree.fromstring(exports.junit(context))
        if suite.get("name") == version
        for each in suite
    ]
    (ending,) = list(case)
    return ending


def crashes() -> Iterator[tuple[Question, Advisory, str]]:
    """Yield the questions whose release ends the job, the advisory that says so, and its error."""
    for question in UPGRADES:
        answer = answer_of(question)
        for one in (*answer.against, *(each.matched for each in answer.conditions)):
            errors = [each.error for each in one.advisory.shown_by if each.error and not each.where]
            if errors:
                yield question, one.advisory, errors[0]


CRASHES = list(crashes())


@pytest.mark.parametrize(("question", "advisory", "error"), CRASHES, ids=lambda one: getattr(one, "name", ""))
def test_junit_and_an_issue_name_the_advisory_of_audit(
    question: Question, advisory: Advisory, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash = f"RuntimeError: {error} (x.py:f)"
    context = asked(question, monkeypatch, crash=crash)
    version = question.to["deepspeed"]
    ending = ending_of(context, version)
    assert ending.tag == "skipped"
    assert f"{advisory.id} {advisory.title}" in str(ending.get("message"))
    known = known_in_issue(question, "outcome", crash)
    assert known.id in str(ending.get("message"))


def known_in_issue(question: Question, metric: str, line: str) -> Advisory:
    """Return the advisory that an issue on the question's release names, whose title and remedies it has."""
    version = question.to["deepspeed"]
    run = SimpleNamespace(answer=upstream_issue.Verdict.BAD, line=line, version=version)
    found = SimpleNamespace(
        question=SimpleNamespace(metric=metric, phase="", key="", title="", name=metric),
        smallest=_run(question, version).cell, bad=version, good=question.job["deepspeed"], package="deepspeed",
        runs=[run], reduced=SimpleNamespace(needed=[], seen_with=[], conditions=["one"]),
    )  # fmt: skip
    sender = upstream_issue._for_the_sender(cast(Any, found))
    title = upstream_issue._title(cast(Any, found))
    known = next(one for one in read_advisories() if f"It is {one.id}" in sender)
    assert title.startswith(known.title)
    assert len(title) < 90
    assert all(remedy_request(one) in sender for one in known.remedies[:4])
    return known


def wrong_trainings() -> Iterator[tuple[Question, Advisory, str]]:
    """Yield the questions whose release trains wrong, the advisory that says so, and the metric that shows it."""
    for question in UPGRADES:
        answer = answer_of(question)
        for one in (*answer.against, *(each.matched for each in answer.conditions)):
            for symptom in one.advisory.shown_by:
                if GRADIENT_NORM_ERROR.name in symptom.metrics:
                    yield question, one.advisory, GRADIENT_NORM_ERROR.name


WRONG_TRAININGS = list(wrong_trainings())


@pytest.mark.parametrize(("question", "advisory", "metric"), WRONG_TRAININGS, ids=lambda one: getattr(one, "name", ""))
def test_junit_and_an_issue_on_wrong_training_name_the_advisory_of_audit(
    question: Question, advisory: Advisory, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = ending_of(asked(question, monkeypatch, error=WRONG), question.to["deepspeed"])
    assert ending.tag == "skipped"
    assert f"{advisory.id} {advisory.title}" in str(ending.get("message"))
    assert known_in_issue(question, metric, "60 tolerances").id in str(ending.get("message"))


@pytest.mark.parametrize(("question", "advisory", "metric"), WRONG_TRAININGS, ids=lambda one: getattr(one, "name", ""))
def test_the_first_screen_calls_wrong_what_audit_calls_a_fault(
    question: Question, advisory: Advisory, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (section,) = report_view(asked(question, monkeypatch, error=WRONG)).screen.sections
    (line,) = section.problems
    assert advisory.id in line.advisories
    if advisory.ruling is Ruling.FAULT:
        assert section.title == "TRAINS WRONG"
    else:
        assert section.title == "TRAINS DIFFERENTLY"
        assert [one for one in advisory.remedies if remedy_request(one) in line.sentences]


def test_there_are_crashes_and_wrong_trainings_among_the_questions() -> None:
    assert len(CRASHES) > 3
    assert len(WRONG_TRAININGS) > 5
    assert {one.ruling for _, one, _ in WRONG_TRAININGS} == {Ruling.FAULT, Ruling.CHANGE}
