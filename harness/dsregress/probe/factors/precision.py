"""The dtypes in which a job computes and reduces."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsregress.probe.factor import (
    IN_EVERY_SCRIPT,
    Configured,
    Factor,
    Fragment,
    explored_switch,
    need,
    setting,
    switch,
)


def _half_precision(value: str, job: Configured) -> Mapping[str, Any]:
    if value == "fp32" or job.autocasts:
        return {}
    if value == "bf16":
        return {"bf16": {"enabled": True}}
    scale = job.values["loss_scale"]
    scaling = {"initial_scale_power": job.loss_scale_power} if scale is None else {"loss_scale": scale}
    return {"fp16": {"enabled": True, **scaling}}


def _autocast(value: bool, job: Configured) -> Mapping[str, Any]:
    if not value:
        return {}
    dtype = "float16" if job.values["dtype"] == "fp16" else "bfloat16"
    return {"torch_autocast": {"enabled": True, "dtype": dtype}}


DTYPE = Factor(
    name="dtype",
    title="dtype",
    group="sharding",
    place=40,
    named_at=40,
    values=("fp32", "bf16", "fp16"),
    unnamed="bf16",
    known=("fp32", "bf16", "fp16"),
    configured=True,
    of_trainer=True,
    configure=_half_precision,
    script=IN_EVERY_SCRIPT,
)

LOSS_SCALE = setting(
    "loss_scale",
    "a loss scale of",
    256,
    group="sharding",
    place=370,
    named_at=560,
    alone="a loss scale that is not dynamic",
    needs=(need("dtype", "fp16"), need("torch_autocast", False)),
    script=IN_EVERY_SCRIPT,  # the dtype configures it
)

TORCH_AUTOCAST = switch(
    "torch_autocast",
    "torch_autocast",
    group="sharding",
    place=380,
    named_at=640,
    needs=(
        need("dtype", "bf16", "fp16"),
        need("zero_init", False),
        need("gradient_accumulation_dtype", None),
        need("integration", "none"),
    ),
    configured=True,
    configure=_autocast,
    script=Fragment(needs_class=True),
)

CALLER_AUTOCAST = explored_switch(
    "caller_autocast",
    "torch.autocast around the forward",
    group="sharding",
    place=680,
    named_at=630,
    off="no torch.autocast around the forward",
    in_truth=False,
    needs=(
        need("dtype", "bf16"),
        need("torch_autocast", False),
        need("zero_init", False),
        need("gradient_accumulation_dtype", None),
        need("integration", "none"),
    ),
    script=Fragment(
        at={"around_forward": 'torch.autocast("cpu", dtype=torch.bfloat16)'}, needs_class=True, is_between=True
    ),
)

COMMUNICATION_DTYPE = setting(
    "communication_dtype",
    "communication in",
    "fp32",
    group="sharding",
    place=330,
    named_at=710,
    alone="a dtype of communication",
    known=(None, "fp32", "bf16", "fp16"),
    of_trainer=True,
    key="communication_data_type",
)
