"""Questions that one measurement answers: all but step time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness import compare
from harness.bisect import questions
from harness.bisect.plan import SearchPlan, VersionAnswer, same, swapped
from harness.bisect.questions import Observation, Question
from harness.bisect.runner import VersionRunner
from harness.compare.metrics import STEP_TIME
from harness.errors import NothingMeasured
from harness.model import Passed, Result, Verdict
from harness.run import pipeline
from harness.store.reuse import reusable
from harness.wording.names import outcome_text


class ExactTester:
    """Questions that one measurement answers."""

    def __init__(self, search: SearchPlan, bench: VersionRunner) -> None:
        self.question = search.question
        self.reason = ""  #: why this is the question, where nobody asked one
        self._search = search
        self._bench = bench
        self._detail_of = pipeline.details_of([bench.store])
        self._results: dict[int, Result] = {}
        self._stored: set[int] = set()
        self._reference: int | None = None  #: the version that shows what bad is
        for at, version in enumerate(search.versions):
            if (result := reusable(bench.stored(version), 0)) is not None:
                self._results[at] = result
                self._stored.add(at)

    def ask(self, places: Sequence[int]) -> None:
        found = self._bench.measure([self._search.versions[at] for at in places])
        self._results.update(zip(places, found, strict=True))

    @property
    def asked(self) -> Question | None:
        return self.question

    def answers(self) -> Mapping[int, VersionAnswer]:
        search = self._search
        if search.good not in self._results or search.bad not in self._results:
            # Nothing can be said before the ends are there; only that their stored neighbours need not be run.
            unsaid = Observation(value=None, text="")
            return {
                at: VersionAnswer(Verdict.UNKNOWN, unsaid, True)
                for at in self._results
                if at in (search.good, search.bad)
            }
        self._settle()
        if self.question is None:  # the ends agree, and nothing between them differs so far
            return {at: self._said(Verdict.GOOD, at) for at in self._results}
        good = self._read(search.good)
        bad = None if self._reference is None else self._read(self._reference)
        limits = self._bench.settings.thresholds
        return {
            at: self._said(questions.answer(self.question, self._read(at), good, bad, limits), at)
            for at in sorted(self._results)
        }

    def _said(self, answer: Verdict, at: int) -> VersionAnswer:
        reading = self._read(at) if self.question else Observation(value=None, text="no relevant difference")
        return VersionAnswer(answer, reading, at in self._stored)

    def _read(self, at: int) -> Observation:
        assert self.question is not None
        return questions.read(self.question, self._results[at], self._detail_of)

    def _settle(self) -> None:
        """Fix the question and what bad is, as soon as it can be told. Raises UsageError, NothingMeasured."""
        search = self._search
        if self.question is None:
            self._choose()
        if self.question is None or self._reference is not None:
            return
        good, bad = self._read(search.good), self._read(search.bad)
        limits = self._bench.settings.thresholds
        for at, reading in ((search.good, good), (search.bad, bad)):
            if reading.value is None:
                raise NothingMeasured(
                    f"{search.versions[at].name} does not say: {reading.text}",
                    where=self.question.name,
                    hint="take another end, or ask for the outcome (--metric outcome)",
                )
        relation = questions.ends(self.question, good, bad, limits)
        if relation.swapped:
            raise swapped(search, f"{self.question.title} is {good.text} against {bad.text}")
        if relation.differ:
            self._reference = search.bad
        elif not search.hunt:
            raise same(search, f"in {self.question.name}: {good.text} and {bad.text}")
        else:
            for at in self._results:
                if questions.answer(self.question, self._read(at), good, None, limits) is Verdict.BAD:
                    self._reference = at
                    return

    def _choose(self) -> None:
        """The worst that differs between the ends or, where they agree, between the good one and any other."""
        search = self._search
        good = self._results[search.good].outcome
        if not isinstance(good, Passed):  # nothing is worse or better than a run that says nothing
            raise NothingMeasured(
                f"{search.versions[search.good].name} does not say: {outcome_text(good)}",
                where="bisect",
                hint="take another end, or ask for the outcome (--metric outcome)",
            )
        places = [search.bad, *(at for at in self._results if search.hunt and at not in (search.good, search.bad))]
        for at in places:
            comparison = self._compared(search.good, at)
            picked = questions.chosen(comparison, search.versions[at].stack.id)
            if picked is None:
                continue
            question, found = picked
            if found.kind == "improvement":
                if at == search.bad and not search.hunt:
                    raise swapped(search, found.message)
                continue
            self.question, self.reason = question, f"{search.versions[at].name}: {found.message}"
            self._bench.watch.note(f"the question is {question.name}, as {self.reason}")
            return
        if not search.hunt:
            raise same(
                search, "in anything that matters", hint=f"--metric asks for one thing, e.g. --metric {STEP_TIME.name}"
            )

    def _compared(self, good: int, other: int) -> compare.Comparison:
        results = [self._results[good], self._results[other]]
        return pipeline.compare_results(results, results[0].cell.stack.id, self._bench.settings, self._bench.store)
