"""Gradient accumulation: by the engine, or by the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsregress.probe.factor import IN_EVERY_SCRIPT, Configured, Factor, Fragment, need, setting, switch


def _engine_steps(value: int, job: Configured) -> Mapping[str, Any]:
    return {} if value == 1 or job.accumulates_itself else {"gradient_accumulation_steps": value}


STEPS = Factor(
    name="gradient_accumulation_steps",
    title="gradient accumulation",
    group="the optimizer",
    place=20,
    named_at=210,
    values=(1, 2, 4),
    counted=True,
    of_trainer=True,
    configure=_engine_steps,
    script=IN_EVERY_SCRIPT,
)

DTYPE = setting(
    "gradient_accumulation_dtype",
    "gradient accumulation dtype",
    "fp32",
    group="the optimizer",
    place=100,
    named_at=230,
    words={None: "gradient accumulation dtype not configured"},
    known=(None, "fp32", "bf16", "fp16"),
    needs=(need("dtype", "bf16", "fp32"),),
    of_trainer=True,
    key="data_types.grad_accum_dtype",
)

NO_SYNC = switch(
    "no_sync",
    "accumulation by the caller under no_sync",
    group="the order of calls",
    place=560,
    named_at=410,
    api="no_sync",
    in_truth=False,
    needs=(need("gradient_accumulation_steps", 2, 4), need("zero_stage", 0, 1)),
    script=Fragment(
        at={"around_backward": "contextlib.nullcontext() if last else engine.no_sync()"},
        imports=("contextlib",),
        is_between=True,
    ),
)

MARKS_BOUNDARY = switch(
    "marks_boundary",
    "accumulation by the caller, who marks its boundary",
    group="the order of calls",
    place=610,
    named_at=450,
    in_truth=False,
    needs=(need("gradient_accumulation_steps", 2, 4), need("no_sync", False)),
    script=Fragment(at={"before_backward": "engine.set_gradient_accumulation_boundary(last)"}, is_between=True),
)
