"""Pairs of values that were tried together, and rows with as many untried pairs as possible. Pure.

A covering array of strength 2, made while it is used: only rows that ran to their end count, since a crash masks everything
else (E. Dumlu and others, "Feedback driven adaptive combinatorial testing", 2011), and each row is the best of a few random
ones (D. Cohen and others, "The AETG system", 1997). Rows are sparse: if all values were drawn together, nearly every row
would have some that fail.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

from dsregress.explore import space
from dsregress.explore.space import Row, ValuePair

#: Values that a row has in addition to those of its base.
_VALUES = 8

#: Random rows of which the best is taken.
_CANDIDATES = 12


class TriedPairs:
    """Pairs of values that were together in rows that ran to their end."""

    def __init__(self, base: Row | None = None) -> None:
        """Take all pairs; with a base, those that its stage can have."""
        self._base = base
        self._all = space.pairs(base)
        self._open = set(self._all)
        self._barren: set[ValuePair] = set()  #: pairs that no row may have, since it would crash

    def tried(self, row: Mapping[str, object]) -> None:
        """Remove the pairs of a row that ran to its end; with a base, only of a row in its stage."""
        if self._base is None or row["zero_stage"] == self._base["zero_stage"]:
            self._open -= space.pairs_of(row)

    @property
    def share(self) -> float:
        """Share of all pairs that were tried."""
        return 1 - len(self._open) / max(1, len(self._all))

    def rows(
        self,
        bases: Sequence[Row],
        count: int,
        drawn: random.Random,
        forbidden: Sequence[Row] = (),
        seldom: Collection[str] = (),
    ) -> list[Row]:
        """Return rows derived from the bases that have many untried pairs; none if no pair is left."""
        stage = {} if self._base is None else {"zero_stage": self._base["zero_stage"]}
        left = self._open - self._barren
        ordered = sorted(left, key=_spelled_pair)  # the same for the same seed
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


def _spelled_pair(pair: ValuePair) -> list[tuple[str, str]]:
    return sorted((name, repr(value)) for name, value in pair)
