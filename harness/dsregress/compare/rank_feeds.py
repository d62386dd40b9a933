"""The data that the ranks of a program were fed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import starmap

import msgspec

from dsregress.probe.border.wire import FedBatch, RunRecord

#: How far two means of the same values may be apart, against the mean of their absolute values, and what counts as zero.
_ROUNDING, _NEAR_ZERO = 0.01, 1e-9

#: Steps whose data are fed once more before a pass is known to repeat another.
_FEWEST_AGAIN = 2


class Feed(msgspec.Struct, frozen=True):
    """The micro-batches that one rank's models were fed."""

    rank: int
    batches: tuple[FedBatch, ...]
    workers: int = 0  #: of the data loader that leaves the most of them idle
    idle_workers: int = 0

    @property
    def order(self) -> list[int]:
        """Return the rows of the data set that were drawn, one by one."""
        return [index for batch in self.batches for index in batch.drawn]

    @property
    def repeats(self) -> bool:
        """Return True if the second pass over the data set has the order of the first."""
        order = self.order
        period = len(set(order))
        is_drawn_again = 1 < period <= len(order) / 2 and order[:period] == order[period : 2 * period]
        return is_drawn_again or self._period > 0

    @property
    def _period(self) -> int:
        """The steps after which the same data are fed again and again; 0 if they are not, or if too few steps are known.
        What data loaders draw is known of the first steps alone, and what is fed of most."""
        known = {step: one for step, one in self._firsts.items() if _has_values(one)}
        for period in range(1, max(known, default=0) // 2 + 1):
            again = [(one, known[step + period]) for step, one in known.items() if step + period in known]
            if len(again) >= max(_FEWEST_AGAIN, period - 1) and all(starmap(_are_alike, again)):
                return period
        return 0

    @property
    def even_rows(self) -> int:
        """Return the rows of a micro-batch if all but the last have as many; 0 if not."""
        rows = {batch.rows for batch in self.batches[:-1]}
        return rows.pop() if len(rows) == 1 else 0

    def first_fed_again(self, step: int) -> int | None:
        """Return the earlier step whose first micro-batch is that of a step once more; None if there is none, or if nothing
        is known of its values."""
        again = self._firsts.get(step)
        if again is None or not _has_values(again):
            return None
        return next((first for first, one in self._firsts.items() if first < step and _are_alike(one, again)), None)

    @property
    def _firsts(self) -> dict[int, FedBatch]:
        """The first micro-batch of each step."""
        firsts: dict[int, FedBatch] = {}
        for batch in self.batches:
            firsts.setdefault(batch.step, batch)
        return firsts


def _has_values(batch: FedBatch) -> bool:
    return bool(batch.values or (batch.first_rows and all(row.ids for row in batch.first_rows)))


def _are_alike(one: FedBatch, other: FedBatch) -> bool:
    return (one.rows, one.first_rows, one.values) == (other.rows, other.first_rows, other.values)


def feeds(record: RunRecord) -> tuple[Feed, ...]:
    """Return the feed of each rank that has one."""
    return tuple(
        Feed(rank.rank, tuple(rank.fed), rank.loader_workers, rank.idle_workers) for rank in record.ranks if rank.fed
    )


def ids_of(ranks: Iterable[Feed]) -> list[str]:
    """Return the digests of all rows of some ranks, sorted; in a simulation they are empty."""
    return sorted(row.ids for feed in ranks for batch in feed.batches for row in batch.first_rows)


def apart_in(own: FedBatch, base: FedBatch) -> str:
    """Return the first argument that both micro-batches have with values of other means; empty if there is none. Those that
    one of them lacks are left out: a release may pass more."""
    return next((name for name, rows in own.values.items() if _are_apart(rows, base.values.get(name, rows))), "")


def are_reordered(own: Iterable[Feed], base: Iterable[Feed]) -> bool:
    """Return True if both have rows of the same values in another order, each argument by itself."""
    mine, theirs = _rows_of(own), _rows_of(base)
    return bool(mine) and all(not _are_apart(sorted(rows), sorted(theirs.get(name, []))) for name, rows in mine.items())


def _rows_of(feeds_: Iterable[Feed]) -> dict[str, list[list[float]]]:
    rows: dict[str, list[list[float]]] = {}
    for batch in (one for feed in feeds_ for one in feed.batches):
        for name, means in batch.values.items():
            rows.setdefault(name, []).extend(means)
    return rows


def _are_apart(own: list[list[float]], base: list[list[float]]) -> bool:
    """Return True if two lists of rows differ in their number, or a row by more than rounding does."""
    return len(own) != len(base) or any(
        abs(mine - its) > _ROUNDING * max(rows[0][0], rows[1][0], _NEAR_ZERO)
        for rows in zip(own, base, strict=True)
        for mine, its in zip(*rows, strict=True)
    )
