"""Search over an ordered list of versions, each of which answers Good, Bad or Unknown. Pure.

The state of a search is the answers so far: `next_probe` and `transitions` are functions of them and of nothing else. So an
interrupted search continues from stored answers, and every stored answer shortens it.

An Unknown is never blamed: a change is a pair of a Good and a Bad with nothing but Unknowns between them, and if there are
any, all of that interval is the result. One change is found as in ``git bisect``: halve, and step aside from an Unknown,
further each time, so that one costs a single probe more and a long run of them not one probe each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from dsregress.model import Verdict

Answers = Mapping[int, Verdict]  #: index in the list -> answer, of the versions that were tested


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the answer between two versions that have one."""

    before: int  #: index of the last version with the old answer
    after: int  #: of the first with the new one
    to: Verdict  #: Bad if a fault begins, Good if it ends
    open: int  #: versions between them that were not tested yet; all others are Unknown

    @property
    def is_exact(self) -> bool:
        """True if ``after`` is certainly the first version with the new answer."""
        return self.after == self.before + 1

    @property
    def is_settled(self) -> bool:
        """True if no probe can narrow it down."""
        return self.open == 0


def transitions(count: int, answers: Answers) -> tuple[Transition, ...]:
    """Return every change that the answers show in a list of ``count`` versions, in the list's order."""
    decided = [at for at in range(count) if answers.get(at, Verdict.UNKNOWN) is not Verdict.UNKNOWN]
    return tuple(
        Transition(before=low, after=high, to=answers[high], open=len(_untested(low, high, answers)))
        for low, high in itertools.pairwise(decided)
        if answers[low] is not answers[high]
    )


def sought(count: int, answers: Answers, to: Verdict) -> Transition | None:
    """Return the first change to this answer: the goal of a search for a single change."""
    return next((change for change in transitions(count, answers) if change.to is to), None)


def undone(count: int, answers: Answers, to: Verdict) -> Transition | None:
    """Return the first change back from this answer, after the one to it: where a fault that came ended."""
    found = sought(count, answers, to)
    if found is None:
        return None
    return next((change for change in transitions(count, answers) if change.before >= found.after), None)


def next_probe(count: int, answers: Answers, to: Verdict, *, every: bool = False, hunt: bool = False) -> int | None:
    """Return the index of the version to test next; None when the search is over.

    First come the ends. Then the first change to the answer ``to`` is narrowed down; with ``every``, all changes are, and
    then every other version is tested, as a history may go bad and good again between any two. With ``hunt``, a search whose
    ends agree goes on: versions between them are tested, coarse to fine, until one differs; and if the found change is seen
    to be undone, that change is narrowed down as well.
    """
    for end in (0, count - 1):
        if end not in answers:
            return end
    narrowed = [change for change in transitions(count, answers) if not change.is_settled]
    if not every:
        change = sought(count, answers, to)
        if change is None:
            return _widest(count, answers) if hunt else None
        narrowed = [one for one in _wanted(count, answers, to, hunt=hunt) if not one.is_settled]
    for change in narrowed:
        return _between(change.before, change.after, answers)
    return _widest(count, answers) if every else None


def _wanted(count: int, answers: Answers, to: Verdict, *, hunt: bool) -> Sequence[Transition]:
    found = sought(count, answers, to)
    back = undone(count, answers, to) if hunt else None
    return [change for change in (found, back) if change is not None]


def runs_left(count: int, answers: Answers, to: Verdict, *, every: bool = False, hunt: bool = False) -> int:
    """Return the number of tests left if none of them is Unknown; an upper bound while the ends agree and nothing is
    found."""
    untested = len(_untested(-1, count, answers))
    if every:
        return untested
    ends = sum(end not in answers for end in {0, count - 1})
    if ends:
        return ends + _halvings(count - 1)
    change = sought(count, answers, to)
    if change is None:
        return untested
    wanted = _wanted(count, answers, to, hunt=hunt)
    return sum(min(change.open, _halvings(change.after - change.before)) for change in wanted)


def _halvings(gap: int) -> int:
    return math.ceil(math.log2(gap)) if gap > 1 else 0


def _untested(low: int, high: int, answers: Answers) -> Sequence[int]:
    return [at for at in range(low + 1, high) if at not in answers]


def _between(low: int, high: int, answers: Answers) -> int:
    """Return the middle, or an index near it if that is Unknown: 1, 2, 4, ... away, then the nearest untested one."""
    middle = (low + high) // 2
    for offset in _aside(high - low):
        if low < middle + offset < high and middle + offset not in answers:
            return middle + offset
    return min(_untested(low, high, answers), key=lambda at: (abs(at - middle), at))


def _aside(width: int) -> Iterator[int]:
    yield 0
    step = 1
    while step < width:
        yield step
        yield -step
        step *= 2


def _widest(count: int, answers: Answers) -> int | None:
    """Return the middle of the longest untested stretch; None if every version is tested."""
    tested = [-1, *sorted(answers), count]
    low, high = max(itertools.pairwise(tested), key=lambda pair: (pair[1] - pair[0], -pair[0]))
    return (low + high) // 2 if high - low > 1 else None
