"""A program's saved tensors against those of its run with the baseline: by name, dtype, shape and size of values; and its
saved files by themselves.

A difference does not say which release is right. Tensors saved in addition, under other names, are no finding by themselves,
unless they make what is saved much larger: an adapter with the embeddings of its model is no small file.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from dsregress.compare.metrics import EMPTY_FILE, LOADED_OTHERWISE, SAVED_DIFFERENCE, SAVED_NUMBERS, UNSAVED, Metric
from dsregress.compare.renamed_tensors import same_tensors
from dsregress.compare.result_pairs import Pair
from dsregress.messages import SEMICOLON, Message, joined, message, name_list, plural_message
from dsregress.model import Finding
from dsregress.probe.border.wire import SavedTensors

#: How far means of values may be apart, relative to the larger: training is compared by itself.
MEAN_TOLERANCE = 0.05

#: Below it a mean counts as zero.
_NEAR_ZERO = 1e-6

#: Most tensors named in the message, and in the evidence.
_MOST_NAMED, _MOST_EVIDENCE = 1, 20

_SAVES_OTHERWISE = message("saved checkpoint differs from the baseline")

_NOT_SAVED, _VALUES = message("not saved"), message("with other values")
_RENAMED = message("saved under another name")

#: The beginnings of the names of a model's weights in the state that DeepSpeed's engine saves: of all, and of frozen ones.
_OF_AN_ENGINE = ("module.", "frozen_param_fragments.")


#: What is saved is much larger from this factor on, and from so many numbers more: buffers and counters are less.
_MUCH_LARGER, _MANY_NUMBERS = 1.25, 10_000

#: A part of the names of what an optimizer has of each weight.
_OF_AN_OPTIMIZER = "optimizer.state."


class _ChangedTensors(NamedTuple):
    tensors: int  #: how many
    what: Message  #: ``in another shape``
    example: str


def judge_saved_files(pair: Pair) -> list[Finding]:
    """Return findings on what is saved that is wrong whatever the baseline does: a file of weights without a tensor, from
    which nothing can be loaded; else trained weights that a model's own files lack; else weights that are loaded from
    them with other values."""
    base = None if pair.is_baseline else pair.base
    if pair.own.empty_files:
        return [_wrong(pair, EMPTY_FILE, pair.own.empty_files, None if base is None else base.empty_files)]
    if pair.own.unsaved:
        return [_wrong(pair, UNSAVED, pair.own.unsaved, None if base is None else base.unsaved)]
    if pair.own.loaded_otherwise:
        of_baseline = None if base is None else base.loaded_otherwise
        return [_wrong(pair, LOADED_OTHERWISE, pair.own.loaded_otherwise, of_baseline)]
    return []


def _wrong(pair: Pair, metric: Metric, found: Sequence[str], of_baseline: Sequence[str] | None) -> Finding:
    return pair.finding(
        metric,
        kind="wrong",
        value=float(len(found)),
        baseline_value=None if of_baseline is None else float(len(of_baseline)),
        claim=metric.wrong,
        sentence=name_list(list(found), _MOST_NAMED),
        evidence=tuple(found[:_MOST_EVIDENCE]) if len(found) > _MOST_NAMED else (),
    )


def judge_saved_tensors(pair: Pair, *, trains_otherwise: bool) -> list[Finding]:
    """Return a finding if tensors that the baseline saves are missing or differ. If training differs, values differ as well
    and say nothing about saving, so they are left out."""
    if pair.base is None or pair.is_baseline:
        return []
    trained = {name for side in (pair.own, pair.base) for _, numbers in side.trained for name in numbers.trained}
    own, base, to_the_end = pair.own.saved, pair.base.saved, False
    if pair.own.saved_last and pair.base.saved_last:  # the values of later steps are not compared by anything else
        own, base, to_the_end = pair.own.saved_last, pair.base.saved_last, True
    found = [one for one in _changed_tensors(own, base) if not _is_frozen(one, trained)]
    changed = [one for one in found if not ((trains_otherwise or to_the_end) and one.what == _VALUES)]
    if not changed and to_the_end:
        changed = [one for one in _changed_tensors(pair.own.saved, pair.base.saved) if one.what == _VALUES]
        changed, base = [] if trains_otherwise else changed, pair.base.saved
    if not changed:
        return []
    saved = sum(one.count for one in base)
    worst = max(changed, key=lambda one: one.tensors)
    likewise = [one for one in changed if one.what == worst.what]
    total, so_many = sum(one.tensors for one in changed), sum(one.tensors for one in likewise)
    examples = ", ".join(one.example for one in likewise[:_MOST_NAMED])
    sentence = plural_message(
        "{changed} of {count:,} tensor {how} ({examples})",
        "{changed} of {count:,} tensors {how} ({examples})",
        saved,
        changed=so_many,
        how=worst.what,
        examples=examples,
    )
    others = [message("{others} differ otherwise", others=total - so_many)] if total > so_many else []
    finding = pair.finding(
        SAVED_DIFFERENCE,
        kind="regression",
        value=float(total),
        baseline_value=0.0,
        claim=_SAVES_OTHERWISE,
        sentence=joined(SEMICOLON, (sentence, *others)),
        evidence=tuple(f"{one.tensors} {one.what}: {one.example}" for one in changed[:_MOST_EVIDENCE]),
    )
    return [finding]


def judge_saved_size(pair: Pair) -> list[Finding]:
    """Return a finding if a program saves many more numbers than with the baseline, in tensors that the baseline leaves
    out."""
    if pair.base is None or pair.is_baseline:
        return []
    own, base = (list(map(_count_of, _weights_of(side.saved))) for side in (pair.own, pair.base))
    more = sum(own) - sum(base)
    known = {one.name for one in pair.base.saved}
    added = [one for one in _weights_of(pair.own.saved) if one.name not in known]
    if not base or more < max(_MANY_NUMBERS, (_MUCH_LARGER - 1) * sum(base)) or not added:
        return []
    largest = max(added, key=_count_of)
    finding = pair.finding(
        SAVED_NUMBERS,
        kind="regression",
        value=float(sum(own)),
        baseline_value=float(sum(base)),
        ratio=sum(own) / sum(base),
        sentence=message(
            "{own:,} numbers of weights are saved, were {before:,} ({example} in addition)",
            own=sum(own),
            before=sum(base),
            example=largest.name,
        ),
    )
    return [finding]


def _weights_of(saved: Sequence[SavedTensors]) -> list[SavedTensors]:
    return [one for one in saved if _OF_AN_OPTIMIZER not in one.name]


def _count_of(tensors: SavedTensors) -> int:
    return math.prod(tensors.shape) * tensors.count


def _is_frozen(one: _ChangedTensors, trained: Collection[str]) -> bool:
    """Return True if an engine's state leaves out a tensor that nothing trains: weights beside adapters are loaded from
    the model that they came from."""
    names = (one.example.removeprefix(start) for start in _OF_AN_ENGINE if one.example.startswith(start))
    return one.what == _NOT_SAVED and bool(trained) and any(name not in trained for name in names)


def _changed_tensors(own: Sequence[SavedTensors], base: Sequence[SavedTensors]) -> Iterator[_ChangedTensors]:
    mine: dict[str, list[SavedTensors]] = {}
    for one in own:
        mine.setdefault(one.name, []).append(one)
    known = [one.name for one in base]
    names = {theirs: name for name, theirs in same_tensors(*map(_kept_by_names, (own, base))).items()}
    for theirs in base:
        if (name := names.get(theirs.name, theirs.name)) != theirs.name:
            yield _ChangedTensors(theirs.count, _RENAMED, f"{name}, was {theirs.name}")
            continue
        candidates = mine.get(theirs.name, [])
        alike = [one for one in candidates if (one.dtype, one.shape) == (theirs.dtype, theirs.shape)]
        if not candidates:
            yield _ChangedTensors(theirs.count, _NOT_SAVED, theirs.name)
        elif not alike or len(candidates) != known.count(theirs.name):
            other = next((one for one in candidates if one.shape != theirs.shape), candidates[0])
            if other.shape != theirs.shape:
                shapes = f"{theirs.name}: {_shape(other)}, was {_shape(theirs)}"
                yield _ChangedTensors(theirs.count, message("in another shape"), shapes)
            elif other.dtype != theirs.dtype:
                yield _ChangedTensors(
                    theirs.count, message("in another dtype"), f"{theirs.name}: {other.dtype}, was {theirs.dtype}"
                )
        elif alike[0].count < theirs.count:
            yield _ChangedTensors(theirs.count - alike[0].count, _NOT_SAVED, theirs.name)
        elif _apart(alike[0].mean, theirs.mean):
            means = f"{theirs.name}: on average {alike[0].mean:.3g}, was {theirs.mean:.3g}"
            yield _ChangedTensors(theirs.count, _VALUES, means)


def _kept_by_names(saved: Sequence[SavedTensors]) -> dict[str, list[object]]:
    """Return what no new name changes, by the names of tensors: their dtypes, shapes and numbers."""
    kept: dict[str, list[object]] = {}
    for one in saved:
        kept.setdefault(one.name, []).append((one.dtype, one.shape, one.count))
    return kept


def _apart(own: float | None, base: float | None) -> bool:
    if own is None or base is None:
        return False
    return abs(own - base) > MEAN_TOLERANCE * max(own, base, _NEAR_ZERO)


def _shape(tensors: SavedTensors) -> str:
    return "x".join(map(str, tensors.shape)) or "a number"
