"""The dtypes in which a job computes and reduces."""

from __future__ import annotations

from collections.abc import Mapping

from dsregress.probe.factor import (
    IN_EVERY_SCRIPT,
    Configured,
    Factor,
    Fragment,
    need,
    switch,
)


def _half_precision(value: str, job: Configured) -> Mapping[str, object]:
    if value == "fp32" or job.autocasts:
        return {}
    if value == "bf16":
        return {"bf16": {"enabled": True}}
    scale = job.values["loss_scale"]
    scaling = {"initial_scale_power": job.loss_scale_power} if scale is None else {"loss_scale": scale}
    return {"fp16": {"enabled": True, **scaling}}


def _autocast(value: bool, job: Configured) -> Mapping[str, object]:
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
