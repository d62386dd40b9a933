"""The library that completes the configuration."""

from __future__ import annotations

from dsregress.probe.factor import Factor

INTEGRATION = Factor(
    name="integration",
    title="configured through",
    group="sharding",
    place=440,
    named_at=120,
    alone="the library that completes the configuration",
    values=("none", "transformers"),
    unnamed="transformers",
    known=("transformers", "accelerate", "none"),
    words={"none": "a configuration of one's own"},
    configured=True,
)
