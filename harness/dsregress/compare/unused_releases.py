"""Runs that say nothing about the releases in which their stacks differ: the workload uses none of them, or trains
nothing, or does not go on from the files that it was given."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dsregress.compare.result_pairs import Pair
from dsregress.compare.result_summary import ResultSummary
from dsregress.wording.quantities import enumeration

#: Fewest steps that tell that nothing is trained.
_FEWEST = 2

#: Packages that leave objects of their classes wherever they are used; of others, this cannot tell
#: (`dsregress.probe.meters.used_packages`).
_TOLD_BY_OBJECTS = frozenset(("transformers", "accelerate", "peft", "deepspeed", "trl"))


def why_says_nothing(pair: Pair) -> str:
    """Return the reason why a run without a difference says nothing about the releases that differ from the baseline's;
    empty if it trains and uses one of them, or if that is not known."""
    base = () if pair.base is None else (pair.base,)
    return _begins_anew(pair.own, *base, told_by=any) or _untrained(pair) or _unused(pair)


def why_begins_anew(pair: Pair) -> str:
    """Return the reason if a program that was to go on from another one's files has read no state of theirs, as with the
    baseline: it does what the first line does, whatever differs."""
    return "" if pair.base is None else _begins_anew(pair.own, pair.base, told_by=all)


def _begins_anew(*sides: ResultSummary, told_by: Callable[[Iterable[bool]], bool]) -> str:
    if not told_by(one.goes_on is False for one in sides):
        return ""
    return "it reads no checkpoint that the first line has written, so it resumes nothing"


def _untrained(pair: Pair) -> str:
    """Return the reason if all losses and gradients are zero, as where every token is masked."""
    sides = [pair.own.trained, *([pair.base.trained] if pair.base is not None else [])]
    figures = [(numbers.losses, numbers.gradient_norms) for side in sides for _, numbers in side]
    if not figures or any(len(norms) < _FEWEST or any((*losses, *norms)) for losses, norms in figures):
        return ""
    if any(None in (*losses, *norms) for losses, norms in figures):
        return ""
    return "it trains nothing, as with the baseline: each loss and each gradient is 0"


def _unused(pair: Pair) -> str:
    if pair.base is None or not pair.own.uses or not pair.base.uses:
        return ""
    mine, theirs = pair.result.cell.stack, pair.base.result.cell.stack
    names = mine.versions.keys() | theirs.versions.keys()
    changed = {name for name in names if mine.versions.get(name) != theirs.versions.get(name)}
    is_told = mine.python == theirs.python and changed and changed <= _TOLD_BY_OBJECTS
    if not is_told or not changed.isdisjoint((*pair.own.uses, *pair.base.uses)):
        return ""
    return f"it does not use {enumeration(sorted(changed))}, and says nothing about these releases"
