"""The number of ranks."""

from __future__ import annotations

from dsregress.probe.factor import IN_EVERY_SCRIPT, Factor

# Three ranks divide no parameter of the tiny models, so that every share is padded.
WORLD_SIZE = Factor(
    name="world_size",
    title="ranks",
    group="sharding",
    place=10,
    named_at=30,
    values=(1, 2),
    further=(3,),
    unnamed=2,
    words={1: "one rank", 2: "two ranks", 3: "three ranks"},
    counted=True,
    of_trainer=True,
    script=IN_EVERY_SCRIPT,
)
