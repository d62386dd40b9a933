"""What a failure may need, by what passed and what failed."""

from __future__ import annotations

from typing import Any

from dsregress.explore import space
from dsregress.explore.suspects import suspects

SIMPLEST = {factor.name: factor.values[0] for factor in space.VARIED}


def row(**values: Any) -> space.Row:
    return {**SIMPLEST, **values}


FAILED = row(zero_stage=1, gradient_accumulation_steps=2, dtype="bf16", evaluate=True)


def test_what_a_sound_try_has_is_not_suspected() -> None:
    sound = [row(zero_stage=1, dtype="bf16"), row(gradient_accumulation_steps=2, evaluate=True, dtype="bf16")]
    assert suspects(FAILED, sound, [], 2) == [{"zero_stage", "evaluate"}, {"zero_stage", "gradient_accumulation_steps"}]


def test_of_as_many_values_those_come_first_that_other_failures_have() -> None:
    sound = [row(zero_stage=1), row(gradient_accumulation_steps=2), row(dtype="bf16"), row(evaluate=True)]
    failed = [FAILED, row(zero_stage=1, gradient_accumulation_steps=2)]
    assert suspects(FAILED, sound, failed, 1) == [{"zero_stage", "gradient_accumulation_steps"}]


def test_a_value_comes_with_what_it_cannot_be_configured_without() -> None:
    assert suspects(row(zero_stage=3, zero_init=True), [row(zero_stage=3)], [], 1) == [{"zero_stage", "zero_init"}]
