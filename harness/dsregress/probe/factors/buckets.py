"""Sizes of buckets, and of what is fetched at a time: in elements, small against a tiny model."""

from __future__ import annotations

from typing import Any

from dsregress.probe.factor import ZERO, Factor, need, setting


def _size(name: str, value: int, key: str, *, place: int, named_at: int, **declared: Any) -> Factor:
    """Return a size of which nothing else is tried: a tiny model with the default is another job."""
    return Factor(
        name=name,
        title=name,
        group="sharding",
        place=place,
        named_at=named_at,
        values=(value,),
        unnamed=None,
        configured=True,
        is_size=True,
        of_trainer=True,
        key=f"{ZERO}{key}",
        **declared,
    )


REDUCE_BUCKET = _size(
    "reduce_bucket_size",
    4096,
    "reduce_bucket_size",
    place=400,
    named_at=240,
    words={
        4096: "a reduce_bucket_size that is smaller than a weight",
        # The default, which no cell has, but a script may.
        None: "a reduce_bucket_size larger than every weight",
    },
)

# With DeepSpeed's default a tiny model has no parameter that is partitioned, as the small ones of a large model.
PERSISTENCE = _size(
    "persistence_threshold",
    0,
    "stage3_param_persistence_threshold",
    place=410,
    named_at=260,
    further=(100_000,),
    needs=(need("zero_stage", 3),),
)

MAX_LIVE = _size("max_live_parameters", 30_000, "stage3_max_live_parameters", place=420, named_at=270)
MAX_REUSE = _size("max_reuse_distance", 30_000, "stage3_max_reuse_distance", place=430, named_at=280)

PREFETCH = setting(
    "prefetch_bucket_size",
    "prefetch_bucket_size",
    group="sharding",
    place=390,
    named_at=250,
    key=f"{ZERO}stage3_prefetch_bucket_size",
)

ALLGATHER_BUCKET = setting(
    "allgather_bucket_size",
    "allgather_bucket_size",
    4096,
    group="sharding",
    place=350,
    named_at=540,
    needs=(need("zero_stage", 1, 2),),
    key=f"{ZERO}allgather_bucket_size",
)

SUB_GROUPS = setting(
    "sub_group_size",
    "sub-groups of",
    20_000,
    group="sharding",
    place=320,
    named_at=670,
    alone="a size of sub-groups",
    needs=(need("zero_stage", 3),),
    key=f"{ZERO}sub_group_size",
)
