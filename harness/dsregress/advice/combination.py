"""A greedy search for the best combination of remedies: start from the strongest of those that help alone, and keep each
further one that lowers the peak. Pure; not every combination is tried, and a better one may exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsregress.advice.cases import Case, makes_room, shortage_bytes
from dsregress.probe.scenario import variant_id

#: Letters of a combination's variant, which names the file of its result (see `dsregress.store`).
_MOST_LETTERS = 180


class CombinationSearch:
    """An iterable of the combinations to run. The caller must `add` the case of each before taking the next."""

    def __init__(self, base: Case, alone: Sequence[Case]) -> None:
        self._base = base
        self._helping = sorted((case for case in alone if makes_room(base, case)), key=shortage_bytes)
        self.best = self._helping[0] if self._helping else base  #: so far
        self.tried: list[Case] = []

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        for case in self._helping[1:]:
            changes = self.best.changes
            contradicts = any(changes.get(name, value) != value for name, value in case.changes.items())
            combined = {**changes, **case.changes}
            if contradicts or combined == changes or len(variant_id(combined)) > _MOST_LETTERS:
                continue
            if all(other.changes != combined for other in self._helping):  # else it was measured under its own name
                yield (*self.best.remedies, *case.remedies)

    def add(self, case: Case) -> None:
        """Add the case of the combination that the iteration yielded last."""
        self.tried.append(case)
        if makes_room(self.best, case, of=self._base):
            self.best = case
