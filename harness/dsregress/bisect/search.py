"""A search over versions: tests one version after another until `dsregress.bisect.halving` has none left to test.

Stored results answer first, before an environment is built, and each run is stored as soon as it is measured. So an
interrupted search continues when it is called again, and one whose answers are all stored runs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from dsregress.bisect import halving, questions
from dsregress.bisect.plan import Candidate, SearchPlan, VersionAnswer, VersionTester
from dsregress.bisect.questions import Question
from dsregress.bisect.result import Probe, SearchResult
from dsregress.bisect.runner import VersionRunner
from dsregress.compare.metrics import BY_NAME
from dsregress.config.thresholds import Thresholds
from dsregress.model import Verdict


def run_search(plan: SearchPlan, tester: VersionTester, runner: VersionRunner) -> SearchResult:
    """Search to the end, and note each step in the runner's watch.

    Raise UsageError if the ends do not span the change that is sought, NothingMeasured if they have no value.
    """
    began, runs = time.monotonic(), runner.runs
    count = len(plan.versions)
    answers = tester.answers()
    if answers:
        runner.watch.note(f"{len(answers)} of {count} {plan.kind} are answered by stored results")
    while True:
        verdicts = _verdicts(answers)
        index = halving.next_probe(count, verdicts, plan.to, every=plan.every, hunt=plan.hunt)
        if index is None:
            break
        ends = [end for end in (0, count - 1) if end not in verdicts]
        if not ends:
            runner.watch.note(_remaining(plan, verdicts, runner))
        tester.test(ends or [index])
        answers = tester.answers()
        for tested in ends or [index]:
            answer = answers[tested]
            runner.watch.note(f"  {plan.versions[tested].name}: {answer.verdict.value}, {answer.observation.text}")
    question = tester.question
    metric = BY_NAME[question.metric] if question else None
    return SearchResult(
        kind=plan.kind,
        package=plan.package,
        metric=question.name if question else "",
        title=question.title if question else "any relevant difference",
        unit=metric.unit if metric else "",
        to=plan.to,
        every=plan.every,
        probes=tuple(_probe(version, runner, answers.get(index)) for index, version in enumerate(plan.versions)),
        changes=halving.transitions(count, verdicts),
        runs=runner.runs - runs,
        took_s=round(time.monotonic() - began, 1),
        notes=_search_notes(plan, answers, question, runner.settings.thresholds),
        hunt=plan.hunt,
    )


def without_answer(plan: SearchPlan, question: Question, runner: VersionRunner, why: str) -> SearchResult:
    """Return the result of a search that could not begin, with ``why`` as its note."""
    return SearchResult(
        kind=plan.kind,
        package=plan.package,
        metric=question.name,
        title=question.title,
        unit=BY_NAME[question.metric].unit,
        to=plan.to,
        every=plan.every,
        probes=tuple(_probe(version, runner, None) for version in plan.versions),
        changes=(),
        runs=0,
        took_s=0.0,
        notes=(why,),
    )


def _verdicts(answers: Mapping[int, VersionAnswer]) -> dict[int, Verdict]:
    return {index: answer.verdict for index, answer in answers.items()}


def _remaining(plan: SearchPlan, verdicts: Mapping[int, Verdict], runner: VersionRunner) -> str:
    """Return ``left: 0.15.0..0.16.2; 2 of 19 answered, about 3 more runs, 45 s``."""
    count = len(plan.versions)
    change = halving.sought(count, verdicts, plan.to)
    if change is not None and change.is_settled and plan.hunt:
        change = halving.undone(count, verdicts, plan.to)
    low, high = (change.before, change.after) if change and not plan.every else (0, count - 1)
    runs = halving.runs_left(count, verdicts, plan.to, every=plan.every, hunt=plan.hunt)
    word = "about" if change and not plan.every else "at most"
    each_s = runner.expected_s()
    seconds = runs * each_s if each_s is not None else None
    duration = "" if seconds is None else f", {seconds:.0f} s" if seconds < 100 else f", {seconds / 60:.0f} min"
    span = f"{plan.versions[low].name}..{plan.versions[high].name}"
    return f"left: {span}; {len(verdicts)} of {count} answered, {word} {runs} more run{'s' * (runs != 1)}{duration}"


def _probe(version: Candidate, runner: VersionRunner, answer: VersionAnswer | None) -> Probe:
    cell = runner.cell(version)
    if answer is None:
        return Probe(name=version.name, stack=cell.stack.id, cell=cell.id, about=version.about)
    return Probe(
        name=version.name,
        stack=cell.stack.id,
        cell=cell.id,
        about=version.about,
        answer=answer.verdict,
        value=answer.observation.value,
        text=answer.observation.text,
        stored=answer.stored,
    )


def _search_notes(
    plan: SearchPlan, answers: Mapping[int, VersionAnswer], question: Question | None, limits: Thresholds
) -> tuple[str, ...]:
    """Return notes for the reader: values between those of the ends, and changes besides the one sought."""
    notes = []
    if question is not None and plan.good in answers and plan.bad in answers:
        good, bad = answers[plan.good].observation, answers[plan.bad].observation
        differ = questions.question_ends(question, good, bad, limits).differ
        between = [
            f"{plan.versions[index].name} ({answer.observation.text})"
            for index, answer in sorted(answers.items())
            if answer.verdict is not Verdict.UNKNOWN and differ and questions.is_between(answer.observation, good, bad)
        ]
        if between:
            notes.append(
                f"neither as good nor as bad as the ends: {', '.join(between)}; there may be more than one change"
            )
    count, verdicts = len(plan.versions), _verdicts(answers)
    said = (halving.sought(count, verdicts, plan.to), halving.undone(count, verdicts, plan.to) if plan.hunt else None)
    others = [change for change in halving.transitions(count, verdicts) if change not in said]
    if others and not plan.every:
        spans = ", ".join(
            f"{'bad' if change.to is Verdict.BAD else 'good'} again in "
            f"{plan.versions[change.before].name}..{plan.versions[change.after].name}"
            for change in others
        )
        notes.append(f"there are other changes: {spans}; --all finds each")
    return tuple(notes)
