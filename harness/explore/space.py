"""The configurations that an exploration tries: every pair of values of the factors, then random ones. Pure.

The factors and their values are those of `harness.reproduce.factors`. No try is spent on what cannot be configured together
(`harness.reproduce.requirements`).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import covertable

from harness.reproduce.factors import BY_NAME, FACTORS, Factor, among
from harness.reproduce.requirements import REQUIREMENTS, is_valid

Row = dict[str, Any]


def explored_values(factor: Factor) -> tuple[Any, ...]:
    """All that an exploration tries of a factor, the simplest first."""
    return (*factor.values, *factor.further)


#: What an exploration varies: sizes, and names of models that only a cell of its own has, stay as they are.
VARIED = tuple(factor for factor in FACTORS if len(explored_values(factor)) > 1)


def alone() -> list[Row]:
    """Each value but the simplest by itself, with what it cannot be configured without."""
    return [
        _configurable({f.name: f.values[0] for f in VARIED} | {factor.name: value}, factor.name)
        for factor in VARIED
        for value in explored_values(factor)[1:]
    ]


def _configurable(row: Row, kept: str) -> Row:
    """With the first values by which all rules hold, and that of ``kept``."""
    while broken := [rule for rule in REQUIREMENTS if not rule.holds(row)]:
        rule = broken[0]
        if rule.other != kept:
            row = {**row, rule.other: rule.needed[0]}
        else:
            others = (value for value in explored_values(BY_NAME[rule.name]) if not among(value, rule.values))
            row = {**row, rule.name: next(others)}
    return row


def covering(seed: str, forbidden: Sequence[Mapping[str, Any]] = ()) -> list[Row]:
    """Rows in which every two values of two factors are together at least once, where the rules let them: a covering array
    of strength 2 (`covertable`, greedy). ``forbidden`` are values that no row may have together, as they are known to
    fail. The same for the same arguments."""
    choices = {factor.name: list(range(len(explored_values(factor)))) for factor in VARIED}
    rules = [rule for rule in REQUIREMENTS if {rule.name, rule.other} <= choices.keys()]
    constraints = [_condition((rule.name, rule.other), rule.holds) for rule in rules]
    for values in forbidden:
        constraints.append(_condition(tuple(values), lambda row, values=values: not has(row, values)))
    rows = covertable.make(choices, salt=seed, constraints=constraints)
    return [_decoded(row) for row in rows]


def without(row: Row, forbidden: Sequence[Mapping[str, Any]], drawn: random.Random) -> Row | None:
    """The row, with a value set back of each that it has and may not have together; None where it cannot be configured
    then."""
    for values in forbidden:
        if has(row, values):
            names = sorted(values)
            drawn.shuffle(names)
            trials = ({**row, name: simplest(name)} for name in names if not among(values[name], (simplest(name),)))
            left = next((trial for trial in trials if is_valid(trial)), None)
            if left is None:
                return None
            row = left
    return row


def near(drawn: random.Random, found: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Random rows without end: the values of one of ``found``, where there are any, all but one of them, and values of three
    other factors."""
    while True:
        row = {factor.name: factor.values[0] for factor in VARIED}
        start = dict(drawn.choice(found)) if found else {}
        if start:
            del start[drawn.choice(sorted(start))]
        row |= start
        for factor in drawn.sample([f for f in VARIED if f.name not in start], 3):
            row[factor.name] = drawn.choice(explored_values(factor)[1:])
        if is_valid(row):
            yield row


def changed(parameters: Mapping[str, Any]) -> Row:
    """The varied values that are not the simplest."""
    return {f.name: parameters[f.name] for f in VARIED if not among(f.value_in(parameters), f.values[:1])}


def simplest(name: str) -> Any:
    """The value of a factor that stands for its absence."""
    return BY_NAME[name].values[0]


def has(row: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
    """Whether a row has all of these values."""
    return all(name in row and among(row[name], (value,)) for name, value in values.items())


def _condition(names: Sequence[str], holds: Any) -> dict[str, Any]:
    """A constraint as `covertable` takes it, of rows that hold the numbers of values."""
    return {
        "operator": "fn",
        "requires": list(names),
        "evaluate": lambda row: holds(_decoded({n: row[n] for n in names})),
    }


def _decoded(row: Mapping[str, int]) -> Row:
    return {name: explored_values(BY_NAME[name])[number] for name, number in row.items()}
