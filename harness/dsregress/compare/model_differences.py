"""A program's model against the baseline's: the precision of its weights, their first values, and those that are trained.

All come before the first step, so that what differs later - losses, norms, memory - may follow from them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from dsregress.compare.loss_pairs import finite_pairs
from dsregress.compare.metrics import START_WEIGHTS, TRAINED_WEIGHTS, WEIGHT_PRECISION, Metric
from dsregress.compare.renamed_tensors import same_tensors
from dsregress.compare.result_pairs import Pair
from dsregress.messages import Message, Text, message, name_list
from dsregress.model import Finding
from dsregress.probe.border.wire import BUFFER, LAST_ROW, Numerics

#: Of the mean of bits: from 32 to 16 it is halved. Ranks may hold other shares of weights in two dtypes.
BITS_TOLERANCE = 0.05

#: Of the logarithm of a mean of weights.
_START_TOLERANCE = 0.05

#: Six standard deviations of that logarithm between two draws of a normal distribution, for one weight.
_OF_CHANCE = 6.4

#: Likewise for a weight that is read from one file, and that one of both has rounded to bf16: by up to 2^-9 each way.
_OF_ROUNDING = 6 * 2**-9 / math.sqrt(3)

#: Below it a mean counts as zero.
_ZERO = 1e-12

#: Most tensors named.
_MOST_NAMED = 2


def judge_model(pair: Pair) -> list[Finding]:
    """Return a finding for each model whose weights have another precision or other first values than the baseline's, and
    for each of which other weights are trained."""
    if pair.base is None or pair.is_baseline:
        return []
    found = []
    base = dict(pair.base.trained)
    for model, mine in pair.own.trained:
        if model not in base:
            continue
        theirs = base[model]
        own_bits, base_bits = _bits(mine), _bits(theirs)
        if (precision := _precision(mine, theirs)) is not None:
            found.append(_model_finding(pair, model, WEIGHT_PRECISION, own_bits, base_bits, precision))
        if begun := _begun_otherwise(mine, theirs, from_files=pair.result.cell.loads_kept_files):
            other = _other_start(begun, mine.trained)
            found.append(_model_finding(pair, model, START_WEIGHTS, len(begun), len(theirs.start), other))
        elif name := drawn_otherwise(mine, theirs):
            sentence = message("other random weights are drawn ({name})", name=name)
            drawn = _model_finding(pair, model, START_WEIGHTS, 1, len(theirs.start), sentence)
            found.append(msgspec.structs.replace(drawn, kind="changed"))
        if (trained := _trained(mine, theirs)) is not None:
            own_count, base_count = (sum(_moving(one).values()) for one in (mine, theirs))
            found.append(_model_finding(pair, model, TRAINED_WEIGHTS, own_count, base_count, trained))
    return found


def _precision(mine: Numerics, theirs: Numerics) -> Message | None:
    if mine.dtype and theirs.dtype and mine.dtype != theirs.dtype:
        return message("the weights are {own}, were {before}", own=mine.dtype, before=theirs.dtype)
    apart = (pair for pair in finite_pairs(mine.weight_bits, theirs.weight_bits) if _differ(*pair))
    for own, before in apart:
        return message("a trained weight has {own:.4g} bits, had {before:.4g}", own=own, before=before)
    return None


def is_drawn_otherwise(pair: Pair) -> bool:
    """Return True if a model of a run begins with other random weights than the baseline's (see `drawn_otherwise`)."""
    base = dict(pair.base.trained) if pair.base is not None else {}
    return any(model in base and drawn_otherwise(own, base[model]) for model, own in pair.own.trained)


def drawn_otherwise(own: Numerics, base: Numerics) -> str:
    """Return the name of trained weights that begin otherwise by more than rounding; empty if there are none. If that is no
    more than chance, both are drawn, as those of an adapter are, and what comes out differs by chance, too."""
    apart = (one for one in _starts(own.start, base.start) if one.name in own.trained)
    return next((one.name for one in apart if _begin_apart(one, 0.0, _OF_ROUNDING)), "")


class _FirstWeights(NamedTuple):
    """The weights of one name when training begins, and in the baseline: means of absolute values."""

    name: str
    mean: float
    before: float
    weights: float  #: how many there are


def _begun_otherwise(own: Numerics, base: Numerics, *, from_files: bool) -> list[_FirstWeights]:
    """Return the weights that begin otherwise. Those that are drawn at random differ by chance, the more the fewer they are;
    those that both read ``from_files`` of one release, by no more than rounding. A buffer counts only where what is trained
    differs: it may be masked or not be used. Likewise the last row of a tensor that does not differ as a whole: it may be
    new, so drawn, whatever is read."""
    trains_alike = (own.losses, own.gradient_norms) == (base.losses, base.gradient_norms)
    drawn = (_START_TOLERANCE, _OF_CHANCE)
    tolerated = (0.0, _OF_ROUNDING) if from_files else drawn
    starts = list(_starts(own.start, base.start))
    apart = [one for one in starts if not one.name.endswith(LAST_ROW) and _begin_apart(one, *tolerated)]
    if trains_alike:
        return [one for one in apart if not one.name.startswith(BUFFER)]
    whole = {f"{one.name}{LAST_ROW}" for one in apart}
    rows = (one for one in starts if one.name.endswith(LAST_ROW) and one.name not in whole)
    return [*apart, *(one for one in rows if _begin_apart(one, *drawn))]


def _starts(own: Mapping[str, Sequence[float]], base: Mapping[str, Sequence[float]]) -> Iterator[_FirstWeights]:
    """Yield the tensors of both, also those that one of both has renamed."""
    counts = [{name: count for name, (_mean, count) in one.items()} for one in (own, base)]
    for name, of_base in same_tensors(*counts).items():
        yield _FirstWeights(name, own[name][0], base[of_base][0], own[name][1])


def _begin_apart(start: _FirstWeights, tolerance: float, of_chance: float) -> bool:
    if min(start.mean, start.before) < _ZERO:
        return max(start.mean, start.before) >= _ZERO
    return abs(math.log(start.mean / start.before)) > max(tolerance, of_chance / math.sqrt(start.weights))


def _other_start(begun: list[_FirstWeights], trained: Collection[str]) -> Message:
    """Name the largest of what is trained, else of all: an adapter that is not loaded stands beside a model of its own."""
    most, rest = max(begun, key=lambda one: (one.name in trained, one.weights)), len(begun) - 1
    if not rest:
        return message(
            "begins with other weights: {name} is {own:.3g} on average, was {before:.3g}",
            name=most.name,
            own=most.mean,
            before=most.before,
        )
    return message(
        "begins with other weights: {name} is {own:.3g} on average, was {before:.3g}, and {more} more differ",
        name=most.name,
        own=most.mean,
        before=most.before,
        more=rest,
    )


def _differ(own: float, base: float) -> bool:
    return abs(own - base) > BITS_TOLERANCE * max(own, base)


def _bits(numbers: Numerics) -> float:
    return next((bits for bits in numbers.weight_bits if bits is not None), 0.0)


def _trained(own: Numerics, base: Numerics) -> Text | None:
    """Return how many weights are trained in one of both alone; None if as many are. Releases may rename all tensors, or
    make one of several."""
    own_moving, base_moving = _moving(own), _moving(base)
    own_count, base_count = sum(own_moving.values()), sum(base_moving.values())
    fewer = base_count - own_count
    if not own_count or not base_count or not fewer:
        return None
    less, more = (own_moving, base_moving) if fewer > 0 else (base_moving, own_moving)
    names = [name for name, count in more.items() if count > less.get(name, 0)]
    shown = name_list(names, _MOST_NAMED) if names else message("none by its name")
    if fewer > 0:
        return message("{count:,} weights are no longer trained ({names})", count=fewer, names=shown)
    return message("{count:,} weights more are trained ({names})", count=-fewer, names=shown)


def _moving(numbers: Numerics) -> dict[str, int]:
    """Return the trained weights without those that no step moves, though nothing freezes them: a release may cut them from
    the loss."""
    return {name: count for name, count in numbers.trained.items() if name not in numbers.still}


def _model_finding(pair: Pair, model: str, metric: Metric, own: float, base: float, sentence: Text) -> Finding:
    return pair.finding(
        metric,
        kind="regression",
        value=own,
        baseline_value=base,
        sentence=sentence,
        model=model,
        rank=0,
    )
