"""The data that the ranks of a program were fed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dsregress.probe.border.wire import FedBatch, RunRecord


class Feed(msgspec.Struct, frozen=True):
    """The micro-batches that one rank's models were fed."""

    rank: int
    batches: tuple[FedBatch, ...]

    @property
    def order(self) -> list[int]:
        """Return the rows of the data set that were drawn, one by one."""
        return [index for batch in self.batches for index in batch.drawn]

    @property
    def repeats(self) -> bool:
        """Return True if the second pass over the data set has the order of the first."""
        order = self.order
        period = len(set(order))
        return 1 < period <= len(order) / 2 and order[:period] == order[period : 2 * period]


def feeds(record: RunRecord) -> tuple[Feed, ...]:
    """Return the feed of each rank that has one."""
    return tuple(Feed(rank.rank, tuple(rank.fed)) for rank in record.ranks if rank.fed)


def ids_of(ranks: Iterable[Feed]) -> list[str]:
    """Return the digests of all rows of some ranks, sorted; in a simulation they are empty."""
    return sorted(row.ids for feed in ranks for batch in feed.batches for row in batch.first_rows)
