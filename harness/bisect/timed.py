"""The question of step time, which no single measurement answers: versions are timed in interleaved rounds against both
ends until the test is sure (see `harness.bisect.sequential`), or until it says that it is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from harness.bisect import sequential
from harness.bisect.plan import SearchPlan, VersionAnswer, same, swapped
from harness.bisect.questions import Observation, Question
from harness.bisect.runner import VersionRunner
from harness.compare.metrics import STEP_TIME
from harness.errors import NothingMeasured
from harness.model import Passed, Result, Verdict
from harness.wording.names import outcome_text
from harness.wording.quantities import quantity

#: Rounds of one session: enough for a clear case to be sure at its end.
AT_ONCE = 12

#: Rounds of one version after which the test gives up, unless told otherwise.
MOST_ROUNDS = 96

QUESTION = Question(STEP_TIME.name)


class TimedTester:
    """See `harness.bisect.plan.VersionTester`. Rounds of earlier sessions with both ends in them count."""

    def __init__(self, search: SearchPlan, bench: VersionRunner, most_rounds: int = MOST_ROUNDS) -> None:
        self._search = search
        self._bench = bench
        self._most = most_rounds
        self._rounds: dict[int, list[sequential.Round]] = defaultdict(list)
        self._ends: list[tuple[float, float]] = []  #: good, bad
        self._failed: dict[int, str] = {}
        self._measured: set[int] = set()
        self._take_stored()

    @property
    def asked(self) -> Question | None:
        return QUESTION

    def ask(self, places: Sequence[int]) -> None:
        self._measured.update(places)
        for at in places:
            while not self._is_done(at):
                middle = [] if at in (self._search.good, self._search.bad) else [at]
                members = [self._search.good, *middle, self._search.bad]
                results = self._bench.measure([self._search.versions[m] for m in members], rounds=AT_ONCE)
                self._take(dict(zip(members, results, strict=True)))
                if self._failed.keys() & set(members):
                    self._failed.setdefault(at, "an end of the search could not be timed beside it")

    def answers(self) -> Mapping[int, VersionAnswer]:
        search = self._search
        said: dict[int, VersionAnswer] = {}
        ends = (search.good, search.bad)
        if all(self._is_done(at) for at in ends):
            self._check_ends()
            good, bad = ([rounds[side] for rounds in self._ends] for side in (0, 1))
            said[search.good] = self._said(search.good, Verdict.GOOD, good, good)
            said[search.bad] = self._said(search.bad, Verdict.BAD, good, bad)
        for at in sorted({*self._rounds, *self._failed} - set(ends)):
            if self._is_done(at):
                rounds = self._rounds[at]
                good, own = [r[0] for r in rounds], [r[1] for r in rounds]
                said[at] = self._said(at, sequential.side(rounds), good, own)
        return said

    def _said(self, at: int, answer: Verdict, good: Sequence[float], own: Sequence[float]) -> VersionAnswer:
        stored = at not in self._measured
        if at in self._failed:
            return VersionAnswer(Verdict.UNKNOWN, Observation(value=None, text=self._failed[at]), stored)
        ratio = sequential.ratio(good, own)
        middle = sorted(own)[len(own) // 2]
        sure = "" if answer is not Verdict.UNKNOWN else ", not sure which end it is like"
        end = self._search.versions[self._search.good].name
        text = f"{quantity(middle, 's')}, {ratio:.2f} times that of {end} in {len(own)} rounds{sure}"
        return VersionAnswer(answer, Observation(value=middle, text=text), stored)

    def _check_ends(self) -> None:
        """Raises UsageError, NothingMeasured."""
        search = self._search
        for at in (search.good, search.bad):
            if at in self._failed:
                raise NothingMeasured(
                    f"{search.versions[at].name} cannot be timed: {self._failed[at]}",
                    where=QUESTION.name,
                    hint="take another end",
                )
        good, bad = ([rounds[side] for rounds in self._ends] for side in (0, 1))
        share = self._bench.settings.thresholds.time_share
        what = f"{sequential.ratio(good, bad):.2f} times the step time, in {len(good)} rounds"
        if sequential.slower(good, bad, share) is Verdict.BAD:
            return
        if sequential.slower(bad, good, share) is Verdict.BAD:
            raise swapped(search, what)
        if sequential.slower(good, bad, share) is Verdict.GOOD:
            raise same(search, f"in step time by more than {share:.0%}: {what}", hint="take ends that differ more")
        raise NothingMeasured(
            f"it is not sure whether the ends differ by more than {share:.0%}: {what}",
            where=QUESTION.name,
            hint="ask for more with --rounds, or take a quieter machine",
        )

    def _is_done(self, at: int) -> bool:
        """Whether more rounds would change nothing, or are not asked for."""
        if at in self._failed:
            return True
        if at not in (self._search.good, self._search.bad):
            rounds = self._rounds[at]
            return len(rounds) >= self._most or sequential.side(rounds) is not Verdict.UNKNOWN
        good, bad = ([rounds[side] for rounds in self._ends] for side in (0, 1))
        share = self._bench.settings.thresholds.time_share
        sure = sequential.slower(good, bad, share) is not Verdict.UNKNOWN
        return bool({self._search.good, self._search.bad} & self._failed.keys()) or sure or len(good) >= self._most

    def _take(self, results: Mapping[int, Result]) -> None:
        """The rounds of one session."""
        seconds: dict[int, Sequence[float]] = {}
        for at, result in results.items():
            if isinstance(result.outcome, Passed) and result.record is not None and result.record.round_s:
                seconds[at] = result.record.round_s
            else:
                self._failed[at] = outcome_text(result.outcome)
        good, bad = seconds.get(self._search.good), seconds.get(self._search.bad)
        if good is None or bad is None:
            return
        others = [at for at in seconds if at not in (self._search.good, self._search.bad)]
        for at in others:
            self._rounds[at] += list(zip(good, seconds[at], bad, strict=False))
        if not others:
            self._ends += list(zip(good, bad, strict=False))

    def _take_stored(self) -> None:
        sessions: dict[str, dict[int, Result]] = defaultdict(dict)
        for at, version in enumerate(self._search.versions):
            for result in self._bench.stored(version):
                if isinstance(result.outcome, Passed) and result.record is not None and result.record.round_s:
                    sessions[result.session][at] = result
        for results in sessions.values():
            if self._search.good not in results or self._search.bad not in results:
                continue
            ends = {at: results[at] for at in (self._search.good, self._search.bad)}
            others = results.keys() - ends.keys()
            for at in sorted(others):
                self._take({**ends, at: results[at]})
            if not others:
                self._take(ends)
