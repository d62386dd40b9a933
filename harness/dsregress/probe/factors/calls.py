"""Calls of the framework in and between the steps, and their order."""

from __future__ import annotations

import contextlib
from typing import Any

from dsregress.probe.factor import Fragment, Hooks, explored_switch, need, switch

_GATHERED = """
for parameter in model.parameters():
    with deepspeed.zero.GatheredParameters(parameter):
        parameter.detach().clone()
"""


def _whole(parameter: object) -> Any:
    """Make a sharded parameter whole within the block."""
    if not hasattr(parameter, "ds_id"):
        return contextlib.nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters([parameter], modifier_rank=None)


def _gather(engine: Any, value: bool) -> None:
    """Read every weight whole, as for an engine that generates."""
    for parameter in engine.module.parameters():
        with _whole(parameter):
            parameter.detach().clone()


def _empty_cache(engine: Any, value: bool) -> None:
    """Release gathered parameters."""
    engine.empty_partition_cache()


def _clear_gradients(engine: Any, value: bool) -> None:
    """Clear gradients, as training loops without DeepSpeed do."""
    engine.optimizer.zero_grad()


GATHER_WEIGHTS = switch(
    "gather_weights",
    "weights that are gathered between steps",
    group="the order of calls",
    place=620,
    named_at=460,
    in_truth=False,
    needs=(need("zero_stage", 3),),
    hooks=Hooks(after_update=_gather),
    script=Fragment(at={"after_update": _GATHERED}),
)

EMPTY_CACHE = switch(
    "empty_cache",
    "empty_partition_cache between steps",
    group="the order of calls",
    place=630,
    named_at=470,
    in_truth=False,
    needs=(need("zero_stage", 3),),
    hooks=Hooks(after_update=_empty_cache),
    script=Fragment(at={"after_update": "engine.empty_partition_cache()"}),
)

ZERO_GRAD = explored_switch(
    "zero_grad",
    "optimizer.zero_grad() before each step",
    group="the order of calls",
    place=650,
    named_at=570,
    off="no optimizer.zero_grad()",
    in_truth=False,
    hooks=Hooks(before_step=_clear_gradients),
    script=Fragment(at={"before_step": "engine.optimizer.zero_grad()"}),
)
