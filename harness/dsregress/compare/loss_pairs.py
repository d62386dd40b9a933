"""Pairs of losses or gradient norms of the first steps, for the numerics oracle and for the comparison of training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

#: Steps that are listed.
_MOST_LISTED = 5


def finite_pairs(measured: Sequence[float | None], others: Sequence[float | None]) -> Iterator[tuple[float, float]]:
    """Yield both values of each step in which both are finite."""
    return ((own, other) for _, own, other in finite_steps(measured, others))


def finite_steps(
    measured: Sequence[float | None], others: Sequence[float | None]
) -> Iterator[tuple[int, float, float]]:
    """Yield the step, counted from 1, and both values of each step in which both are finite."""
    for step, (own, other) in enumerate(zip(measured, others, strict=False), 1):
        if own is not None and other is not None and math.isfinite(own) and math.isfinite(other):
            yield step, own, other


def text_of_model(model: str, text: str) -> str:
    """Return ``critic: text``, or the text alone if only one model trains."""
    return f"{model}: {text}" if model else text


def listed(values: Sequence[float | None]) -> str:
    """Return the values of the first steps: ``2.30259, none``."""
    return ", ".join("none" if value is None else f"{value:.6g}" for value in values[:_MOST_LISTED])
