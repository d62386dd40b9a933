"""Tests versions by step time, which no single measurement answers: versions are timed in rounds interleaved with both ends
until the test is sure (see `dsregress.bisect.sequential`), or out of rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

from dsregress.bisect import sequential
from dsregress.bisect.plan import SearchPlan, VersionAnswer, equal_ends, swapped_ends
from dsregress.bisect.questions import Observation, Question
from dsregress.bisect.runner import VersionRunner
from dsregress.compare.metrics import STEP_TIME
from dsregress.errors import NothingMeasured
from dsregress.model import Passed, Result, Verdict
from dsregress.wording.names import outcome_text
from dsregress.wording.quantities import quantity

#: Rounds of one session: enough to decide a clear case.
AT_ONCE = 12

#: Rounds of one version after which the test gives up, by default.
MOST_ROUNDS = 96

QUESTION = Question(STEP_TIME.name)


class TimedTester:
    """A `VersionTester`. Rounds of stored sessions that hold both ends count."""

    def __init__(self, plan: SearchPlan, runner: VersionRunner, most_rounds: int = MOST_ROUNDS) -> None:
        self._plan = plan
        self._runner = runner
        self._most = most_rounds
        self._share = runner.settings.thresholds.time_share
        self._ends = (plan.good, plan.bad)
        self._rounds: dict[int, list[sequential.RoundTimes]] = defaultdict(list)
        self._end_rounds: list[tuple[float, float]] = []  #: seconds of the good and the bad end
        self._failed: dict[int, str] = {}
        self._measured: set[int] = set()
        self._take_stored()

    @property
    def question(self) -> Question | None:
        """Always step time."""
        return QUESTION

    def test(self, indexes: Sequence[int]) -> None:
        """Time each version together with both ends, session after session, until it is decided or out of rounds."""
        self._measured.update(indexes)
        for index in indexes:
            while not self._is_done(index):
                middle = [] if index in self._ends else [index]
                members = [self._plan.good, *middle, self._plan.bad]
                results = self._runner.measure([self._plan.versions[member] for member in members], rounds=AT_ONCE)
                self._take_results(dict(zip(members, results, strict=True)))
                if middle and self._failed.keys() & set(members):
                    self._failed.setdefault(index, "an end of the search could not be timed next to it")

    def answers(self) -> Mapping[int, VersionAnswer]:
        """Return the answers of the versions that are decided or out of rounds, see `VersionTester.answers`."""
        answers: dict[int, VersionAnswer] = {}
        if all(self._is_done(end) for end in self._ends):
            self._check_ends()
            good, bad = self._end_times()
            answers[self._plan.good] = self._answer_about(self._plan.good, Verdict.GOOD, good, good)
            answers[self._plan.bad] = self._answer_about(self._plan.bad, Verdict.BAD, good, bad)
        for index in sorted({*self._rounds, *self._failed} - set(self._ends)):
            if self._is_done(index):
                rounds = self._rounds[index]
                good, own = [times[0] for times in rounds], [times[1] for times in rounds]
                answers[index] = self._answer_about(index, sequential.side(rounds), good, own)
        return answers

    def _answer_about(self, index: int, verdict: Verdict, good: Sequence[float], own: Sequence[float]) -> VersionAnswer:
        stored = index not in self._measured
        if index in self._failed:
            return VersionAnswer(Verdict.UNKNOWN, Observation(value=None, text=self._failed[index]), stored)
        ratio = sequential.ratio(good, own)
        median_s = median(own)
        doubt = "" if verdict is not Verdict.UNKNOWN else ", undecided between the ends"
        end = self._plan.versions[self._plan.good].name
        text = f"{quantity(median_s, 's')}, {ratio:.2f} times that of {end} in {len(own)} rounds{doubt}"
        return VersionAnswer(verdict, Observation(value=median_s, text=text), stored)

    def _check_ends(self) -> None:
        """Raise UsageError unless the bad end is the slower one, NothingMeasured if that cannot be decided."""
        for end in self._ends:
            if end in self._failed:
                raise NothingMeasured(
                    f"{self._plan.versions[end].name} cannot be timed: {self._failed[end]}",
                    where=QUESTION.name,
                    hint="choose another end",
                )
        good, bad = self._end_times()
        what = f"{sequential.ratio(good, bad):.2f} times the step time, in {len(good)} rounds"
        slower = sequential.slower(good, bad, self._share)
        if slower is Verdict.BAD:
            return
        if sequential.slower(bad, good, self._share) is Verdict.BAD:
            raise swapped_ends(self._plan, what)
        if slower is Verdict.GOOD:
            what = f"in step time by more than {self._share:.0%}: {what}"
            raise equal_ends(self._plan, what, hint="choose ends that differ more")
        raise NothingMeasured(
            f"the measurements cannot tell whether the ends differ by more than {self._share:.0%}: {what}",
            where=QUESTION.name,
            hint="increase --rounds, or use a quieter machine",
        )

    def _is_done(self, index: int) -> bool:
        """Return True if the version failed, is decided, or has had all its rounds."""
        if index in self._failed:
            return True
        if index not in self._ends:
            rounds = self._rounds[index]
            return len(rounds) >= self._most or sequential.side(rounds) is not Verdict.UNKNOWN
        good, bad = self._end_times()
        is_sure = sequential.slower(good, bad, self._share) is not Verdict.UNKNOWN
        return bool(self._failed.keys() & set(self._ends)) or is_sure or len(good) >= self._most

    def _end_times(self) -> tuple[list[float], list[float]]:
        """Return the seconds of the good and of the bad end, round by round."""
        return [good for good, _ in self._end_rounds], [bad for _, bad in self._end_rounds]

    def _take_results(self, results: Mapping[int, Result]) -> None:
        """Count the rounds of one session."""
        seconds: dict[int, Sequence[float]] = {}
        for index, result in results.items():
            if (times := _round_times(result)) is not None:
                seconds[index] = times
            else:
                self._failed[index] = outcome_text(result.outcome)
        good, bad = seconds.get(self._plan.good), seconds.get(self._plan.bad)
        if good is None or bad is None:
            return
        others = [index for index in seconds if index not in self._ends]
        for index in others:
            self._rounds[index] += list(zip(good, seconds[index], bad, strict=False))
        if not others:
            self._end_rounds += list(zip(good, bad, strict=False))

    def _take_stored(self) -> None:
        sessions: dict[str, dict[int, Result]] = defaultdict(dict)
        for index, version in enumerate(self._plan.versions):
            for result in self._runner.stored(version):
                if _round_times(result) is not None:
                    sessions[result.session][index] = result
        for results in sessions.values():
            if any(end not in results for end in self._ends):
                continue
            ends = {end: results[end] for end in self._ends}
            others = results.keys() - ends.keys()
            for index in sorted(others):
                self._take_results({**ends, index: results[index]})
            if not others:
                self._take_results(ends)


def _round_times(result: Result) -> Sequence[float] | None:
    """Return the seconds of each timed round; None if the result was not timed or did not pass."""
    if not isinstance(result.outcome, Passed) or result.record is None:
        return None
    return result.record.round_s or None
