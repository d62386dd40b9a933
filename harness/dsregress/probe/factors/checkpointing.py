"""Gradient checkpointing: activations that are computed again in backward."""

from __future__ import annotations

from dsregress.probe.factor import IN_EVERY_SCRIPT, Factor

GRADIENT_CHECKPOINTING = Factor(
    name="gradient_checkpointing",
    title="gradient checkpointing",
    group="the model",
    place=70,
    named_at=170,
    values=("none", "reentrant", "non_reentrant"),
    known=("none", "reentrant", "non_reentrant"),
    words={
        "none": "no gradient checkpointing",
        "reentrant": "reentrant checkpointing",
        "non_reentrant": "non-reentrant checkpointing",
    },
    configured=True,
    of_trainer=True,
    in_truth=False,
    script=IN_EVERY_SCRIPT,
)
