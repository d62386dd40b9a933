"""The shapes of batches, from step to step, micro-batch to micro-batch and rank to rank."""

from __future__ import annotations

from dsregress.probe.factor import Fragment, need, switch

IDENTICAL = switch(
    "identical_micro_batches",
    "identical micro-batches",
    group="batches",
    place=230,
    named_at=220,
    off="different micro-batches",
    needs=(
        need("gradient_accumulation_steps", 2, 4),
        need("varying_length", False),
        need("uneven_last", False),
    ),
    script=Fragment(varies_batches=True, names_rank=True),
)

VARYING_LENGTH = switch(
    "varying_length",
    "batches of varying length",
    group="batches",
    place=520,
    named_at=370,
    off="batches of one length",
    script=Fragment(varies_batches=True),
)

UNEVEN_LAST = switch(
    "uneven_last",
    "a smaller last batch",
    group="batches",
    place=530,
    named_at=380,
    off="batches of one size",
    script=Fragment(varies_batches=True),
)

UNEVEN_RANKS = switch(
    "uneven_ranks",
    "batches of other lengths on other ranks",
    group="batches",
    place=700,
    named_at=490,
    off="the same length on all ranks",
    needs=(need("world_size", 2, 3),),
    script=Fragment(varies_batches=True, names_rank=True),
)
