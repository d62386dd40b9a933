"""Objectives: what a loss is computed from, and an infinite gradient of it."""

from __future__ import annotations

from dsregress.probe.factor import Factor, Fragment

_INFINITE = """
{% set rank = " and RANK == %s" % (ranks - 1) if ranks > 1 else "" %}
if step == {{ infinite_gradient_step }}{{ rank }}{{ " and micro_batch == 0" if micro_batches > 1 }}:
    loss = loss * float("inf")
"""

INFINITE_GRADIENT = Factor(
    name="infinite_gradient_step",
    title="an infinite gradient in step",
    group="the loss",
    place=480,
    named_at=330,
    alone="infinite gradients",
    values=(None,),
    further=(1,),
    words={None: "finite gradients"},
    script=Fragment(at={"after_forward": _INFINITE}, is_between=True, names_rank=True),
)
