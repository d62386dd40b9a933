"""Tests versions by everything but step time: one measurement of a version is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsregress import compare
from dsregress.bisect import questions
from dsregress.bisect.plan import SearchPlan, VersionAnswer, equal_ends, swapped_ends
from dsregress.bisect.questions import Observation, Question
from dsregress.bisect.runner import VersionRunner
from dsregress.compare.comparison import Problem, ProblemKind
from dsregress.compare.metrics import BY_NAME, OUTCOME, STEP_TIME
from dsregress.errors import NothingMeasured
from dsregress.model import Passed, Result, Verdict
from dsregress.run import pipeline
from dsregress.wording.names import outcome_text

_ANOTHER_END = f"choose another end, or search for the outcome (--metric {OUTCOME.name})"


#: Versions between unmarked ends that are searched for something that makes a job fail, if the ends differ only in
#: something that does not.
_GRAVER_SOUGHT = 3


class ExactTester:
    """A `VersionTester`. Without a question it chooses the worst difference between the ends."""

    def __init__(self, plan: SearchPlan, runner: VersionRunner) -> None:
        self.question: Question | None = plan.question
        self.reason = ""  #: how the question was chosen; empty if the user did
        self._plan = plan
        self._runner = runner
        self._limits = runner.settings.thresholds
        self._detail_of = pipeline.details_of([runner.store])
        self._results: dict[int, Result] = {}
        self._reference: int | None = None  #: the version that shows what bad is
        self._minor: dict[int, str] = {}  #: what else is worse in a version while something graver is looked for
        for index, version in enumerate(plan.versions):
            if (result := runner.counts(version)) is not None:
                self._results[index] = result
        self._stored = frozenset(self._results)

    def test(self, indexes: Sequence[int]) -> None:
        """Measure these versions once each."""
        measured = self._runner.measure([self._plan.versions[index] for index in indexes])
        self._results.update(zip(indexes, measured, strict=True))

    def answers(self) -> Mapping[int, VersionAnswer]:
        """Return the answers, see `VersionTester.answers`. Choose the question as soon as the ends allow it."""
        ends = (self._plan.good, self._plan.bad)
        if any(end not in self._results for end in ends):
            # No verdict is possible before both ends are measured; an end that is stored need not be run, though.
            unread = Observation(value=None, text="")
            return {index: VersionAnswer(Verdict.UNKNOWN, unread, True) for index in self._results if index in ends}
        if self.question is None:
            self._choose()
        if self.question is not None and self._reference is None:
            self._settle(self.question)
        if self.question is None:  # the ends agree, and so far nothing between them differs
            return {index: self._nothing_graver(index) for index in self._results}
        good = self._observe(self.question, self._plan.good)
        bad = None if self._reference is None else self._observe(self.question, self._reference)
        answers = {}
        for index in sorted(self._results):
            observation = self._observe(self.question, index)
            verdict = questions.judge_observation(self.question, observation, good, bad, self._limits)
            answers[index] = VersionAnswer(verdict, observation, index in self._stored)
        return answers

    def _nothing_graver(self, index: int) -> VersionAnswer:
        """Return the answer of a version while no question is found."""
        minor = self._minor.get(index)
        text = f"nothing graver than: {minor}" if minor else "no relevant difference"
        return VersionAnswer(Verdict.GOOD, Observation(value=None, text=text), index in self._stored)

    def met(self) -> tuple[str, ...]:
        """Return the other problems of the measured versions, the gravest first."""
        plan = self._plan
        if plan.good not in self._results:
            return ()
        names = {one.stack.id: one.name for one in plan.versions}
        results = [self._results[index] for index in sorted(self._results)]
        baseline = self._results[plan.good].cell.stack.id
        settings, store = self._runner.settings, self._runner.store
        problems = pipeline.compare_results(results, baseline, settings, store).problems
        own = next((at for at, one in enumerate(problems) if self._is_asked_about(one)), len(problems))
        return tuple(
            f"{'graver: ' if at < own < len(problems) else ''}{plan.package} {_met(one, names)}"
            for at, one in enumerate(problems)
            if not self._is_asked_about(one) and one.kind is not ProblemKind.UNTESTABLE
        )

    def _is_asked_about(self, problem: Problem) -> bool:
        asked = self.question
        found = (*problem.findings, *problem.related)
        return asked is not None and any((one.metric, one.phase) == (asked.metric, asked.phase) for one in found)

    def _observe(self, question: Question, index: int) -> Observation:
        return questions.observe(question, self._results[index], self._detail_of)

    def _settle(self, question: Question) -> None:
        """Fix what bad is, as soon as a version shows it. Raise UsageError, NothingMeasured."""
        plan = self._plan
        good, bad = self._observe(question, plan.good), self._observe(question, plan.bad)
        for index, observation in ((plan.good, good), (plan.bad, bad)):
            if observation.value is None:
                raise self._says_nothing(index, observation.text, where=question.name)
        relation = questions.question_ends(question, good, bad, self._limits)
        if relation.swapped:
            raise swapped_ends(plan, f"{question.title} is {good.text} against {bad.text}")
        if relation.differ:
            self._reference = plan.bad
        elif not plan.hunt:
            raise equal_ends(plan, f"in {question.name}: {good.text} and {bad.text}")
        else:
            self._reference = next(
                (
                    index
                    for index in self._results
                    if questions.judge_observation(question, self._observe(question, index), good, None, self._limits)
                    is Verdict.BAD
                ),
                None,
            )

    def _choose(self) -> None:
        """Choose the question: the worst difference at the bad end or, if the ends agree, at any version between them."""
        plan = self._plan
        good = self._results[plan.good].outcome
        if not isinstance(good, Passed):  # nothing is worse or better than a run without values
            raise self._says_nothing(plan.good, outcome_text(good), where="bisect")
        middle = [index for index in self._results if plan.hunt and index not in (plan.good, plan.bad)]
        minor: tuple[Question, str] | None = None
        for index in (plan.bad, *middle):
            comparison = self._compared(plan.good, index)
            picked = questions.question_of_finding(comparison, plan.versions[index].stack.id)
            if picked is None:
                continue
            question, finding = picked
            if finding.kind == "improvement":
                if index == plan.bad and not plan.hunt:
                    raise swapped_ends(plan, finding.message)
                continue
            reason = f"{plan.versions[index].name}: {finding.message}"
            if not _is_grave(question) and plan.hunt:
                minor = minor or (question, reason)
                self._minor[index] = finding.message
                continue
            self._ask(question, reason)
            return
        if minor is not None and (len(middle) >= _GRAVER_SOUGHT or len(self._results) == len(plan.versions)):
            self._ask(*minor)
        if not plan.hunt:
            hint = f"--metric names one metric, e.g. --metric {STEP_TIME.name}"
            raise equal_ends(plan, "in anything that matters", hint=hint)

    def _ask(self, question: Question, reason: str) -> None:
        self.question, self.reason = question, reason
        self._runner.watch.note(f"the question is {question.name}, as {reason}")

    def _says_nothing(self, index: int, why: str, *, where: str) -> NothingMeasured:
        name = self._plan.versions[index].name
        return NothingMeasured(f"{name} gives no answer: {why}", where=where, hint=_ANOTHER_END)

    def _compared(self, good: int, other: int) -> compare.Comparison:
        results = [self._results[good], self._results[other]]
        return pipeline.compare_results(results, results[0].cell.stack.id, self._runner.settings, self._runner.store)


def _is_grave(question: Question) -> bool:
    """Return True if a job fails, grows or trains wrong by it. More work or communication only makes it slower."""
    return BY_NAME[question.metric].fails != STEP_TIME.fails


def _met(problem: Problem, names: Mapping[str, str]) -> str:
    """Return a problem as ``0.15.4 to 0.16.9: backward issues 21 more collectives (+38 %): 55 -> 76; not in 0.15.3``."""
    newest = next((one for one in problem.findings if one.stack == problem.until), problem.worst)
    span = " to ".join(names[stack] for stack in dict.fromkeys((problem.since, problem.until)))
    beside = [names[stack] for stack in (problem.before, problem.after) if stack]
    return f"{span}: {newest.message}" + (f"; not in {' and '.join(beside)}" if beside else "")
