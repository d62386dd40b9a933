"""Gradient accumulation: by the engine, or by the caller."""

from __future__ import annotations

from collections.abc import Mapping

from dsregress.probe.factor import IN_EVERY_SCRIPT, Configured, Factor


def _engine_steps(value: int, job: Configured) -> Mapping[str, object]:
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
