"""ZeRO++'s secondary partition of parameters (hpZ)."""

from __future__ import annotations

from dsregress.probe.factor import ZERO, need, setting

PARTITION = setting(
    "hpz_partition_size",
    "hpZ partition of",
    2,
    group="sharding",
    place=260,
    named_at=300,
    alone="hpZ",
    needs=(need("zero_stage", 3), need("world_size", 2)),  # three ranks have no groups of two
    key=f"{ZERO}zero_hpz_partition_size",
)
