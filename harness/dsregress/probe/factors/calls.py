"""Calls of the framework in and between the steps, and their order."""

from __future__ import annotations

import contextlib
from typing import Any

from dsregress.probe.factor import Factor, Fragment, Hooks, explored_switch, need, switch

_BACKWARD = """
{% if backward_on == "divided" %}
engine.backward({{ scalar }} / {{ micro_batches }}, scale_wrt_gas=False)
{% elif backward_on == "loss" %}
engine.scale({{ share }}).backward()
{% elif backward_on == "several" %}
{% set part = 0.5 / micro_batches if accumulates else 0.5 %}
torch.stack(({{ scalar }}, {{ scalar }})).backward(torch.full((2,), {{ part }}, dtype={{ scalar }}.dtype))
{% endif %}
"""

BACKWARD_ON = Factor(
    name="backward_on",
    title="backward on",
    group="the order of calls",
    place=570,
    named_at=420,
    values=("engine", "loss", "several"),
    further=("divided",),
    known=("engine", "loss", "several", "divided"),
    api="scale",
    words={
        "engine": "engine.backward",
        "divided": "engine.backward(scale_wrt_gas=False) on a loss that the caller divided",
        "loss": "loss.backward()",
        "several": "tensor.backward(gradient) on several losses",
    },
    in_truth=False,
    needs=(
        need("dtype", "fp32", "bf16", by=("several",)),
        need("gradient_accumulation_steps", 2, 4, by=("divided",)),
        need("no_sync", False, by=("divided",)),
        need("marks_boundary", False, by=("divided",)),
    ),
    script=Fragment(at={"backward": _BACKWARD}, is_between=True),
)


_EVALUATED_WITHIN = """
{% if not evaluate %}
if micro_batch == 0:
    {{ evaluated() | indent }}
{% endif %}
"""

EVALUATE_WITHIN = switch(
    "evaluate_within",
    "an evaluation between micro-batches",
    group="the order of calls",
    place=540,
    named_at=390,
    in_truth=False,
    needs=(need("gradient_accumulation_steps", 2, 4),),
    script=Fragment(at={"after_update": _EVALUATED_WITHIN}, computes_losses=True),
)

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

_UNWRAPPED = """
with deepspeed.zero.unwrap_model_for_generation(engine):
    {{ evaluated("engine.module") | indent }}
"""

UNWRAPPED = explored_switch(
    "unwrapped",
    "hooks that are taken off before a step, as around a generation",
    group="the order of calls",
    place=640,
    named_at=580,
    off="hooks that are left on",
    api="unwrap_model_for_generation",
    in_truth=False,
    needs=(need("zero_stage", 3),),
    script=Fragment(at={"evaluation": _UNWRAPPED}, computes_losses=True),
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
