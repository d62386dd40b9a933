"""A run's record as far as a comparison reads it.

Of 100,000 results decoding is the larger part of the work, and most of a record is not compared: durations of phases,
logs, clocks. What is not named here is skipped, and what is, is decoded into values that cost little.
"""

from __future__ import annotations

import msgspec

from harness.probe.border.wire import Numerics, PhaseReading, RunRecord


class Rank(msgspec.Struct, gc=False):
    """As `harness.probe.border.wire.RankRecord`."""

    rank: int
    phases: dict[str, PhaseReading] = {}
    init_s: float = 0.0
    numerics: Numerics | None = None
    ideal: dict[str, dict[str, int]] = {}


class Brief(msgspec.Struct, gc=False):
    """As `harness.probe.border.wire.RunRecord`."""

    import_s: float = 0.0
    world_size: int = 0
    ranks: list[Rank] = []
    round_s: list[float] = []


def brief(record: RunRecord) -> Brief:
    """Of a record at hand."""
    return Brief(
        import_s=record.import_s,
        world_size=record.world_size,
        ranks=[
            Rank(
                rank=rank.rank,
                phases=rank.phases,
                init_s=rank.init_s,
                numerics=rank.numerics,
                ideal=rank.ideal,
            )
            for rank in record.ranks
        ],
        round_s=record.round_s,
    )
