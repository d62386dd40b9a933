"""The configurations that an exploration tries. Pure.

The factors and their values are those of `dsregress.reproduce.factors`. Values that cannot be configured together
(`dsregress.reproduce.requirements`) are not tried.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dsregress.probe.factor import Factor, among
from dsregress.probe.factors import BY_NAME, FACTORS
from dsregress.reproduce.requirements import REQUIREMENTS

Row = dict[str, Any]

#: Two values of two factors, with the factors' names.
ValuePair = frozenset[tuple[str, Any]]

#: Values of most jobs, whatever their stage: a fault in them needs few further values.
EVERYDAY: Row = {
    "gradient_accumulation_steps": 2,
    "dtype": "bf16",
    "world_size": 2,
    "model_outputs": "all",
    "gradient_clipping": 1.0,
    "zero_init": True,
}

#: Rules lead from one to another a few times at most.
_MOST_RULES = 30


#: The factors that an exploration varies. Sizes, and names of models that only a cell of its own has, stay the same.
VARIED = tuple(factor for factor in FACTORS if len(factor.explored) > 1)


def simplest_row() -> Row:
    """Return the simplest value of each varied factor."""
    return {factor.name: factor.values[0] for factor in VARIED}


def everyday() -> list[Row]:
    """Return one job of each ZeRO stage, as most users have it."""
    stages = reversed(BY_NAME["zero_stage"].values)
    rows = (_with(simplest_row() | EVERYDAY, {"zero_stage": stage}) for stage in stages)
    return [row for row in rows if row is not None]


def neighbours(bases: Sequence[Row]) -> list[Row]:
    """Return each other value of each factor, by itself, on each of the bases, with the values that it requires. The stage
    stays. First comes each value on one base, each on another one; then on the next."""
    values = [(f.name, value) for f in VARIED if f.name != "zero_stage" for value in f.explored]
    rounds: list[list[Row]] = [[] for _ in bases]
    for at, (name, value) in enumerate(values):
        trials = ((base, _with(base, {name: value, "zero_stage": base["zero_stage"]})) for base in bases)
        rows = [row for base, row in trials if row is not None and row != base]
        for number in range(len(rows)):
            rounds[number].append(rows[(at + number) % len(rows)])
    return [row for rows in rounds for row in rows]


def _with(row: Row, values: Mapping[str, object], kept: Collection[str] = ()) -> Row | None:
    """Return the row with these values and those that they require; None if they conflict with each other or with those of
    ``kept``. Other values are changed as a rule requires."""
    fixed = {*values, *kept}
    row = {**row, **values}
    for _ in range(_MOST_RULES):
        rule = next((rule for rule in REQUIREMENTS if not rule.holds(row)), None)
        if rule is None:
            return row
        if rule.other not in fixed:
            row = {**row, rule.other: rule.needed[0]}
        elif rule.name not in fixed:
            others = (value for value in BY_NAME[rule.name].explored if not among(value, rule.values))
            row = {**row, rule.name: next(others)}
        else:
            return None
    return None


def sprinkled(
    base: Row,
    first: Mapping[str, object],
    count: int,
    drawn: random.Random,
    forbidden: Sequence[Mapping[str, object]] = (),
    seldom: Collection[str] = (),
) -> Row | None:
    """Return ``base`` with the values of ``first`` and ``count`` others at random, as far as they are compatible; None if
    ``first`` is not. No row has all values of one of ``forbidden``; values of the factors ``seldom`` are drawn one time in
    four."""
    row = _with(base, first)
    if row is None or any(has_values(row, values) for values in forbidden):
        return None
    fixed = set(first)
    for factor in drawn.sample(VARIED, len(VARIED)):
        if len(fixed) >= len(first) + count:
            break
        if factor.name in fixed or (factor.name in seldom and drawn.random() > 0.25):
            continue
        value = drawn.choice(_notable(factor))
        trial = _with(row, {factor.name: value}, fixed)
        if trial is not None and not any(has_values(trial, values) for values in forbidden):
            row = trial
            fixed.add(factor.name)
    return row


def near(bases: Sequence[Row], found: Sequence[Row], drawn: random.Random, forbidden: Sequence[Row]) -> Iterator[Row]:
    """Yield random rows without end: the values of one of ``found`` except one, and those of three other factors."""
    while True:
        start = dict(drawn.choice(found))
        del start[drawn.choice(sorted(start))]
        row = sprinkled(drawn.choice(bases), start, 3, drawn, forbidden)
        if row is not None:
            yield row


def _notable(factor: Factor) -> tuple[object, ...]:
    """Return the values that are not in every other row anyway: the simplest one is, unless everyday jobs have another."""
    values = factor.explored
    return values if factor.name in EVERYDAY else values[1:]


def pairs(base: Row | None = None) -> set[ValuePair]:
    """Return every two notable values of two factors that can be configured together; with a base, in its stage."""
    stage = {} if base is None else {"zero_stage": base["zero_stage"]}
    row = simplest_row() if base is None else base
    values = [(f.name, value) for f in VARIED if f.name not in stage for value in _notable(f)]
    return {
        frozenset((one, other))
        for one, other in itertools.combinations(values, 2)
        if one[0] != other[0] and _with(row, {**stage, **dict((one, other))}) is not None
    }


def pairs_of(row: Mapping[str, object]) -> set[ValuePair]:
    """Return the pairs of a row."""
    values = [(f.name, row[f.name]) for f in VARIED if among(row[f.name], _notable(f))]
    return {frozenset(both) for both in itertools.combinations(values, 2)}


def varied_values(parameters: Mapping[str, object]) -> Row:
    """Return the varied values that are not the simplest."""
    return {f.name: parameters[f.name] for f in VARIED if not among(f.value_in(parameters), f.values[:1])}


def simplest(name: str) -> Any:
    """Return the value of a factor that stands for its absence."""
    return BY_NAME[name].values[0]


def has_values(row: Mapping[str, object], values: Mapping[str, object]) -> bool:
    """Return True if a row has all of these values."""
    return all(name in row and among(row[name], (value,)) for name, value in values.items())
