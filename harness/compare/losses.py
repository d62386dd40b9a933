"""Losses and gradient norms of the first steps, beside others: what the numerics oracle and a comparison do alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

#: Steps that are listed.
_MOST_LISTED = 5


def finite_pairs(measured: Sequence[float | None], others: Sequence[float | None]) -> Iterator[tuple[float, float]]:
    """Step by step, where both are finite numbers."""
    return ((own, other) for _, own, other in finite_steps(measured, others))


def finite_steps(
    measured: Sequence[float | None], others: Sequence[float | None]
) -> Iterator[tuple[int, float, float]]:
    """The steps where both are finite numbers, counted from 1, and both."""
    for step, (own, other) in enumerate(zip(measured, others, strict=False), 1):
        if own is not None and other is not None and math.isfinite(own) and math.isfinite(other):
            yield step, own, other


def of_model(model: str, text: str) -> str:
    """``critic: text``; the text alone where only one model trains."""
    return f"{model}: {text}" if model else text


def listed(values: Sequence[float | None]) -> str:
    """``2.30259, none``: those of the first steps."""
    return ", ".join("none" if value is None else f"{value:.6g}" for value in values[:_MOST_LISTED])
