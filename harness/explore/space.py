"""The configurations that an exploration tries. Pure.

The factors and their values are those of `harness.reproduce.factors`. No try is spent on what cannot be configured together
(`harness.reproduce.requirements`).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from harness.reproduce.factors import BY_NAME, FACTORS, Factor, among
from harness.reproduce.requirements import REQUIREMENTS

Row = dict[str, Any]

#: Two values of two factors, with the factors' names.
ValuePair = frozenset[tuple[str, Any]]

#: What most jobs have, whatever their stage: a fault of theirs needs few values besides.
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


def explored_values(factor: Factor) -> tuple[Any, ...]:
    """All that an exploration tries of a factor, the simplest first."""
    return (*factor.values, *factor.further)


#: What an exploration varies: sizes, and names of models that only a cell of its own has, stay as they are.
VARIED = tuple(factor for factor in FACTORS if len(explored_values(factor)) > 1)


def simplest_row() -> Row:
    return {factor.name: factor.values[0] for factor in VARIED}


def everyday() -> list[Row]:
    """One job of each ZeRO stage, as most users have it."""
    stages = reversed(BY_NAME["zero_stage"].values)
    rows = (_with(simplest_row() | EVERYDAY, {"zero_stage": stage}) for stage in stages)
    return [row for row in rows if row is not None]


def beside(bases: Sequence[Row]) -> list[Row]:
    """Each other value of each factor by itself beside each of the bases, with what it cannot be configured without. The
    stage stays. First each value beside one base, each beside another one; then beside the next."""
    values = [(f.name, value) for f in VARIED if f.name != "zero_stage" for value in explored_values(f)]
    rounds: list[list[Row]] = [[] for _ in bases]
    for at, (name, value) in enumerate(values):
        trials = ((base, _with(base, {name: value, "zero_stage": base["zero_stage"]})) for base in bases)
        rows = [row for base, row in trials if row is not None and row != base]
        for number in range(len(rows)):
            rounds[number].append(rows[(at + number) % len(rows)])
    return [row for rows in rounds for row in rows]


def _with(row: Row, values: Mapping[str, Any], kept: Collection[str] = ()) -> Row | None:
    """The row with these values, and what they require; None where they, or those of ``kept``, do not go together. Other
    values go where a rule wants it."""
    fixed = {*values, *kept}
    row = {**row, **values}
    for _ in range(_MOST_RULES):
        rule = next((rule for rule in REQUIREMENTS if not rule.holds(row)), None)
        if rule is None:
            return row
        if rule.other not in fixed:
            row = {**row, rule.other: rule.needed[0]}
        elif rule.name not in fixed:
            others = (value for value in explored_values(BY_NAME[rule.name]) if not among(value, rule.values))
            row = {**row, rule.name: next(others)}
        else:
            return None
    return None


def sprinkled(
    base: Row,
    first: Mapping[str, Any],
    count: int,
    drawn: random.Random,
    forbidden: Sequence[Mapping[str, Any]] = (),
    seldom: Collection[str] = (),
) -> Row | None:
    """``base`` with the values of ``first``, and with so many others at random, as far as they go together; None where
    ``first`` does not. No row has all values of one of ``forbidden``; values of the factors ``seldom`` are drawn once in
    four times."""
    row = _with(base, first)
    if row is None or any(has(row, values) for values in forbidden):
        return None
    fixed = set(first)
    for factor in drawn.sample(VARIED, len(VARIED)):
        if len(fixed) >= len(first) + count:
            break
        if factor.name in fixed or (factor.name in seldom and drawn.random() > 0.25):
            continue
        value = drawn.choice(_notable(factor))
        trial = _with(row, {factor.name: value}, fixed)
        if trial is not None and not any(has(trial, values) for values in forbidden):
            row = trial
            fixed.add(factor.name)
    return row


def near(bases: Sequence[Row], found: Sequence[Row], drawn: random.Random, forbidden: Sequence[Row]) -> Iterator[Row]:
    """Random rows without end: the values of one of ``found``, all but one of them, and those of three other factors."""
    while True:
        start = dict(drawn.choice(found))
        del start[drawn.choice(sorted(start))]
        row = sprinkled(drawn.choice(bases), start, 3, drawn, forbidden)
        if row is not None:
            yield row


def _notable(factor: Factor) -> tuple[Any, ...]:
    """The values that are not in every other row anyway: the simplest ones are, but where everyday jobs have another."""
    values = explored_values(factor)
    return values if factor.name in EVERYDAY else values[1:]


def pairs(base: Row | None = None) -> set[ValuePair]:
    """Every two notable values of two factors that can be configured together; beside a base, in its stage."""
    stage = {} if base is None else {"zero_stage": base["zero_stage"]}
    row = simplest_row() if base is None else base
    values = [(f.name, value) for f in VARIED if f.name not in stage for value in _notable(f)]
    return {
        frozenset((one, other))
        for one, other in itertools.combinations(values, 2)
        if one[0] != other[0] and _with(row, {**stage, **dict((one, other))}) is not None
    }


def pairs_of(row: Mapping[str, Any]) -> set[ValuePair]:
    """Those that a row has."""
    values = [(f.name, row[f.name]) for f in VARIED if among(row[f.name], _notable(f))]
    return {frozenset(both) for both in itertools.combinations(values, 2)}


def changed(parameters: Mapping[str, Any]) -> Row:
    """The varied values that are not the simplest."""
    return {f.name: parameters[f.name] for f in VARIED if not among(f.value_in(parameters), f.values[:1])}


def simplest(name: str) -> Any:
    """The value of a factor that stands for its absence."""
    return BY_NAME[name].values[0]


def has(row: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether a row has all of these values."""
    return all(name in row and among(row[name], (value,)) for name, value in values.items())
