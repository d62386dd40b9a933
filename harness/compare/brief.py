"""A run's record as far as a comparison reads it.

Of 100,000 results decoding is the larger part of the work, and most of a record is not compared: durations of phases,
logs, clocks. What is not named here is skipped, and what is, is decoded into values that cost little.
"""

from __future__ import annotations

import msgspec

from harness.probe.border.wire import Numerics, PhaseReading, RunRecord


class Reading(msgspec.Struct, gc=False):
    """As `harness.probe.border.wire.PhaseReading`."""

    device_peak_bytes: int = 0
    device_retained_bytes: int = 0
    host_peak_bytes: int = 0
    host_retained_bytes: int = 0
    reserved_peak_bytes: int | None = None
    smallest_card_bytes: int | None = None
    host_calls: int = 0
    op_launches: int = 0
    flops: int = 0
    collectives: dict[str, tuple[int, int]] = {}  #: sorted by kind


class Rank(msgspec.Struct, gc=False):
    """As `harness.probe.border.wire.RankRecord`."""

    rank: int
    phases: dict[str, Reading] = {}
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
                phases={phase: _reading(reading) for phase, reading in rank.phases.items()},
                init_s=rank.init_s,
                numerics=rank.numerics,
                ideal=rank.ideal,
            )
            for rank in record.ranks
        ],
        round_s=record.round_s,
    )


def _reading(reading: PhaseReading) -> Reading:
    plain = {name: getattr(reading, name) for name in Reading.__struct_fields__ if name != "collectives"}
    return Reading(
        **plain, collectives={kind: (count, size) for kind, (count, size) in sorted(reading.collectives.items())}
    )
