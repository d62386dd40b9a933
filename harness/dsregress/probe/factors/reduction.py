"""Reduction of gradients, and gathering of the shares of parameters."""

from __future__ import annotations

from dsregress.probe.factor import ZERO, need, setting

OVERLAP = setting(
    "overlap_comm",
    "overlap_comm",
    False,
    True,
    group="sharding",
    place=240,
    named_at=290,
    of_trainer=True,
    needs=(need("zero_stage", 1, 2, 3),),
    key=f"{ZERO}overlap_comm",
)

ROUND_ROBIN = setting(
    "round_robin_gradients",
    "round_robin_gradients",
    True,
    group="sharding",
    place=250,
    named_at=310,
    of_trainer=True,
    needs=(need("zero_stage", 1, 2),),
    key=f"{ZERO}round_robin_gradients",
)

CONTIGUOUS = setting(
    "contiguous_gradients",
    "contiguous_gradients",
    False,
    group="sharding",
    place=270,
    named_at=650,
    of_trainer=True,
    needs=(need("zero_stage", 1, 2, 3),),
    key=f"{ZERO}contiguous_gradients",
)

REDUCE_SCATTER = setting(
    "reduce_scatter",
    "reduce_scatter",
    False,
    group="sharding",
    place=280,
    named_at=660,
    of_trainer=True,
    needs=(need("zero_stage", 1, 2, 3),),
    key=f"{ZERO}reduce_scatter",
)

ALLGATHER_PARTITIONS = setting(
    "allgather_partitions",
    "allgather_partitions",
    False,
    group="sharding",
    place=290,
    named_at=680,
    of_trainer=True,
    needs=(need("zero_stage", 1, 2),),
    key=f"{ZERO}allgather_partitions",
)

MULTI_RANK_BUCKET = setting(
    "multi_rank_bucket_allreduce",
    "use_multi_rank_bucket_allreduce",
    False,
    group="sharding",
    place=360,
    named_at=550,
    needs=(need("zero_stage", 1, 2),),
    key=f"{ZERO}use_multi_rank_bucket_allreduce",
)

ALL_REDUCE_FOR_FETCH = setting(
    "all_reduce_for_fetch",
    "use_all_reduce_for_fetch_params",
    True,
    group="sharding",
    place=300,
    named_at=690,
    needs=(need("zero_stage", 3),),
    key=f"{ZERO}stage3_use_all_reduce_for_fetch_params",
)

MEMORY_EFFICIENT_LINEAR = setting(
    "memory_efficient_linear",
    "memory_efficient_linear",
    False,
    group="sharding",
    place=310,
    named_at=700,
    needs=(need("zero_stage", 3),),
    key=f"{ZERO}memory_efficient_linear",
)

# Stage 2 has it without reduce_scatter alone.
PRESCALE = setting(
    "prescale_gradients",
    "prescale_gradients",
    True,
    group="sharding",
    place=340,
    named_at=720,
    needs=(need("zero_stage", 0, 1),),
    key="prescale_gradients",
)
