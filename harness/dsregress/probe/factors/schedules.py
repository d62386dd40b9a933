"""The learning rate's schedule: torch's own, or one that DeepSpeed's configuration names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsregress.probe.factor import Configured, Factor, Fragment, explored_switch, need

#: The learning rate with which a warm-up begins.
FIRST_RATE = 0.0002

#: Three steps show only the rise of schedules that fall later.
_RISING = {"warmup_num_steps": 2, "warmup_type": "linear", "total_num_steps": 100}


def _warmup(value: bool, job: Configured) -> Mapping[str, object]:
    warmup = {"warmup_min_lr": FIRST_RATE, "warmup_num_steps": 2, "warmup_type": "linear"}
    return {"scheduler": {"type": "WarmupLR", "params": warmup}} if value else {}


def _schedule(value: str | None, job: Configured) -> Mapping[str, Any]:
    if not value:
        return {}
    # Without a warm-up, as transformers resolves "auto" if none is requested.
    own = {"warmup_num_steps": 0, "warmup_max_lr": job.learning_rate} if value == "WarmupDecayLR" else {}
    return {"scheduler": {"type": value, "params": {**_RISING, **own}}}


_WARMING = f"""
{{% if has_truth %}}
def warming(rate):  # as WarmupLR documents it; its iteration 0 is the second step
    return lambda step: ({FIRST_RATE} + (rate - {FIRST_RATE}) * min(1, max(0, step - 1) / 2)) / rate


{{% endif %}}
"""

WARMUP = explored_switch(
    "warmup",
    "a WarmupLR named in the configuration",
    group="the optimizer",
    place=210,
    named_at=530,
    off="no WarmupLR",
    needs=(need("integration", "none"), need("learning_rate_decay", 1.0)),
    configured=True,
    configure=_warmup,
    script=Fragment(
        at={"truth": _WARMING, "rates": '[warming(group["lr"]) for group in {{ optimizer }}.param_groups]'},
        needs_more_steps=True,
    ),
)

SCHEDULE = Factor(
    name="schedule",
    title="configured schedule",
    group="the optimizer",
    place=220,
    named_at=600,
    values=(None,),
    further=("WarmupDecayLR", "WarmupCosineLR"),
    known=(None, "WarmupDecayLR", "WarmupCosineLR"),
    words={None: "no other schedule named in the configuration"},
    needs=(
        need("integration", "none"),
        need("learning_rate_decay", 1.0),
        need("warmup", False),
        need("group_learning_rates", False, by=("WarmupDecayLR",)),
    ),
    configured=True,
    configure=_schedule,
    script=Fragment(at={"rates": "lambda step: min(1, max(0, step - 1) / 2)"}, needs_more_steps=True),
)
