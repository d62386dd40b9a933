"""Which values were tried together, and rows that have those together that were not. Pure.

A covering array of strength 2, made while it is used: only rows that ran to their end count, as what crashes hides all else
(E. Dumlu and others, "Feedback driven adaptive combinatorial testing", 2011), and each row is the best of a few random ones
(D. Cohen and others, "The AETG system", 1997). Rows are sparse: of values that are all drawn together, nearly every row has
some that fail.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from harness.explore import space
from harness.explore.space import Row, ValuePair

#: Values that a row has beside those of its base.
_VALUES = 8

#: Random rows of which the best is taken.
_CANDIDATES = 12


class TriedPairs:
    """Pairs of values that were together in rows that ran to their end."""

    def __init__(self, base: Row | None = None) -> None:
        """Of all pairs; beside a base, of those that its stage can have."""
        self._base = base
        self._all = space.pairs(base)
        self._open = set(self._all)
        self._barren: set[ValuePair] = set()  #: that no row may have, by what is known to crash

    def tried(self, row: Mapping[str, Any]) -> None:
        if self._base is None or row["zero_stage"] == self._base["zero_stage"]:
            self._open -= space.pairs_of(row)

    @property
    def share(self) -> float:
        """Of all pairs."""
        return 1 - len(self._open) / max(1, len(self._all))

    def rows(
        self,
        bases: Sequence[Row],
        count: int,
        drawn: random.Random,
        forbidden: Sequence[Row] = (),
        seldom: Collection[str] = (),
    ) -> list[Row]:
        """Rows beside the bases that have many pairs which no row had; none where no pair is left."""
        stage = {} if self._base is None else {"zero_stage": self._base["zero_stage"]}
        left = self._open - self._barren
        ordered = sorted(left, key=_spelled)  # the same for the same seed
        found: list[Row] = []
        while ordered and len(found) < count:
            pair = drawn.choice(ordered)
            trials = (
                space.sprinkled(drawn.choice(bases), {**stage, **dict(pair)}, _VALUES, drawn, forbidden, seldom)
                for _ in range(_CANDIDATES)
            )
            rows = [row for row in trials if row is not None]
            if not rows:
                self._barren.add(pair)
                left.discard(pair)
            else:
                best = max(rows, key=lambda row: len(space.pairs_of(row) & left))
                left -= space.pairs_of(best)
                found.append(best)
            ordered = [one for one in ordered if one in left]
        return found


def _spelled(pair: ValuePair) -> list[tuple[str, str]]:
    return sorted((name, repr(value)) for name, value in pair)
