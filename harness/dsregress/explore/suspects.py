"""Factors that a failure may need: values that it has and that no sound try has together. Pure.

Every try that passes clears each combination of its values, so after one covering array few combinations of one or two
values are left (C. Nie, H. Leung, "The minimal failure-causing schema of combinatorial testing", 2011). Trying these alone
first saves a trial of each value that a failure has and does not need.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from dsregress.explore import space
from dsregress.reproduce import requirements

#: Values that are suspected together, at most: pairs are covered, triples are seldom cleared.
_MOST_VALUES = 3


def suspects(
    row: Mapping[str, object], sound: Sequence[Mapping[str, object]], failed: Sequence[Mapping[str, object]], count: int
) -> list[frozenset[str]]:
    """Return the sets of factors that most likely are all that the failure of ``row`` needs: the smallest first, and of
    those the ones that most of the other failures share. Each set includes the factors that its values require."""
    found: dict[frozenset[str], tuple[int, int]] = {}
    for values in _combinations(row):
        if not any(space.has_values(other, values) for other in sound):
            names = _configurable(values, row)
            shared = sum(space.has_values(other, values) for other in failed)
            found.setdefault(names, (len(names), -shared))
    return sorted(found, key=lambda names: (found[names], sorted(names)))[:count]


def _combinations(row: Mapping[str, object]) -> Iterator[dict[str, object]]:
    changed = space.varied_values(row)
    for size in range(1, _MOST_VALUES + 1):
        for names in itertools.combinations(changed, size):
            yield {name: changed[name] for name in names}


def _configurable(values: Mapping[str, object], row: Mapping[str, object]) -> frozenset[str]:
    """Return the names of the values, with those of the values of ``row`` that they require."""
    names = set(values)
    while True:
        trial = {name: row[name] if name in names else space.simplest(name) for name in row}
        broken = [rule for rule in requirements.REQUIREMENTS if not rule.holds(trial)]
        missing = {rule.other for rule in broken} - names
        if not missing:
            return frozenset(names)
        names |= missing
