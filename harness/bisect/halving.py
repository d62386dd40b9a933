"""Search over an ordered list of versions, each of which answers Good, Bad or Unknown. Pure.

The state of a search is what has been answered so far: `next_probe` and `changes` are functions of it and of nothing
else. So a search that was interrupted goes on from stored answers, and answers that somebody had anyway shorten it.

An Unknown is never blamed: a change is a pair of a Good and a Bad with nothing but Unknowns between them, and where
there are any, all of that interval is what is left. One change is found as in ``git bisect``: halve, and step aside from
an Unknown, further each time, so that one costs a single probe more and a long run of them not one probe each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from harness.model import Verdict

Answers = Mapping[int, Verdict]  #: place in the list -> answer; places that were not asked are missing


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """Between two neighbours in what is decided, the answer changes."""

    before: int  #: the last place with the old answer
    after: int  #: the first place with the new one
    to: Verdict  #: Bad where a fault begins, Good where it ends
    open: int  #: places between them that were not asked yet; all others are Unknown

    @property
    def is_exact(self) -> bool:
        """Whether ``after`` is certainly the first."""
        return self.after == self.before + 1

    @property
    def is_settled(self) -> bool:
        """Whether no probe can narrow it down."""
        return self.open == 0


def changes(count: int, answers: Answers) -> tuple[Transition, ...]:
    """Every change in a list of ``count`` places that the answers show, in the list's order."""
    decided = [at for at in range(count) if answers.get(at, Verdict.UNKNOWN) is not Verdict.UNKNOWN]
    return tuple(
        Transition(before=low, after=high, to=answers[high], open=len(_unasked(low, high, answers)))
        for low, high in itertools.pairwise(decided)
        if answers[low] is not answers[high]
    )


def sought(count: int, answers: Answers, to: Verdict) -> Transition | None:
    """The first change to this answer: the one that a search for a single change is after."""
    return next((change for change in changes(count, answers) if change.to is to), None)


def next_probe(count: int, answers: Answers, to: Verdict, *, every: bool = False, hunt: bool = False) -> int | None:
    """The place to ask next; None where nothing is left to ask.

    First the ends. Then the first change to the answer ``to`` is narrowed down; with ``every``, all changes are, and then
    every place is asked that was not, as a history may have gone bad and well again between any two. With ``hunt``,
    ends that agree are no end of the search: places between them are asked, coarse to fine, until one differs.
    """
    for end in (0, count - 1):
        if end not in answers:
            return end
    narrowed = [change for change in changes(count, answers) if not change.is_settled]
    if not every:
        change = sought(count, answers, to)
        if change is None:
            return _widest(count, answers) if hunt else None
        narrowed = [] if change.is_settled else [change]
    for change in narrowed:
        return _between(change.before, change.after, answers)
    return _widest(count, answers) if every else None


def runs_left(count: int, answers: Answers, to: Verdict, *, every: bool = False) -> int:
    """How many probes are left if none of them is Unknown; while ends agree, and nothing is found yet, at most."""
    unasked = len(_unasked(-1, count, answers))
    if every:
        return unasked
    ends = sum(end not in answers for end in {0, count - 1})
    if ends:
        return ends + _halvings(count - 1)
    change = sought(count, answers, to)
    if change is None:
        return unasked
    return min(change.open, _halvings(change.after - change.before))


def _halvings(gap: int) -> int:
    return math.ceil(math.log2(gap)) if gap > 1 else 0


def _unasked(low: int, high: int, answers: Answers) -> Sequence[int]:
    return [at for at in range(low + 1, high) if at not in answers]


def _between(low: int, high: int, answers: Answers) -> int:
    """The middle, or beside it if that is Unknown: 1, 2, 4, ... away, then the nearest that was not asked."""
    middle = (low + high) // 2
    for offset in _aside(high - low):
        if low < middle + offset < high and middle + offset not in answers:
            return middle + offset
    return min(_unasked(low, high, answers), key=lambda at: (abs(at - middle), at))


def _aside(width: int) -> Iterator[int]:
    yield 0
    step = 1
    while step < width:
        yield step
        yield -step
        step *= 2


def _widest(count: int, answers: Answers) -> int | None:
    """The middle of the longest stretch that was not asked."""
    asked = [-1, *sorted(answers), count]
    low, high = max(itertools.pairwise(asked), key=lambda pair: (pair[1] - pair[0], -pair[0]))
    return (low + high) // 2 if high - low > 1 else None
