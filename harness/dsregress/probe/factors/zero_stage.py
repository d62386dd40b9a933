"""ZeRO's stage, and what a model is built under."""

from __future__ import annotations

from dsregress.probe.factor import IN_EVERY_SCRIPT, ZERO, Factor, need, switch

STAGE = Factor(
    name="zero_stage",
    title="ZeRO stage",
    group="sharding",
    place=0,
    named_at=130,
    values=(0, 1, 2, 3),
    unnamed=3,
    known=(0, 1, 2, 3),
    configured=True,
    of_trainer=True,
    key=f"{ZERO}stage",
    script=IN_EVERY_SCRIPT,
)

ZERO_INIT = switch(
    "zero_init",
    "zero.Init",
    group="sharding",
    place=60,
    named_at=140,
    on="a model built under zero.Init",
    off="a model that is whole before `initialize`",
    unnamed=True,
    needs=(need("zero_stage", 3),),
    configured=True,
    script=IN_EVERY_SCRIPT,
)
