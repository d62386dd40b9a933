"""The optimizer, and what becomes of gradients before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsregress.probe.factor import IN_EVERY_SCRIPT, Configured, Factor, Fragment, Hooks, need


def _configured_optimizer(value: str, job: Configured) -> Mapping[str, object]:
    return {"optimizer": job.optimizer} if value == "configured" and job.optimizer is not None else {}


OPTIMIZER = Factor(
    name="optimizer",
    title="the optimizer",
    group="the optimizer",
    place=450,
    named_at=730,
    values=("passed", "configured"),
    known=("passed", "configured"),
    words={"passed": "an optimizer that is passed", "configured": "an optimizer named in the configuration"},
    needs=(need("offload_optimizer", False), need("integration", "none")),
    configured=True,
    configure=_configured_optimizer,
    script=IN_EVERY_SCRIPT,
)

_HALVED = """
{% set trained = "filter(lambda p: p.requires_grad, model.parameters())" %}
for parameter in {{ trained if frozen or lora_rank else "model.parameters()" }}:
    gradient = deepspeed.utils.safe_get_{{ halved_gradients }}_grad(parameter)
    deepspeed.utils.safe_set_{{ halved_gradients }}_grad(parameter, gradient / 2)
"""


def _halve(engine: Any, parts: str) -> None:
    """Halve the gradients of a step, like a user who clips them by a rule of their own; ``parts``: whole ("full"), or
    each rank its share ("local"). Collective."""
    from deepspeed import utils

    utils.safe_set_full_grad  # noqa: B018  (which came with the local one)
    read, write = getattr(utils, f"safe_get_{parts}_grad"), getattr(utils, f"safe_set_{parts}_grad")
    for parameter in engine.module.parameters():
        if parameter.requires_grad and (gradient := read(parameter)) is not None:
            write(parameter, gradient / 2)


HALVED_GRADIENTS = Factor(
    name="halved_gradients",
    title="gradients that the user halves",
    group="the optimizer",
    place=660,
    named_at=620,
    values=("",),
    further=("full", "local"),
    known=("", "full", "local"),
    api="safe_set_full_grad",
    words={
        "": "gradients that the user leaves",
        "full": "gradients that the user halves by safe_set_full_grad",
        "local": "gradients that the user halves by safe_set_local_grad",
    },
    needs=(
        need("zero_stage", 1, 2, 3, by=("full",)),
        need("zero_stage", 3, by=("local",)),
        need("infinite_gradient_step", None),
    ),
    hooks=Hooks(before_update=_halve),
    script=Fragment(at={"before_update": _HALVED}),
)
