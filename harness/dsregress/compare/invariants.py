"""Invariants of training: what a result shows to be wrong with neither a baseline nor a truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dsregress.compare.metrics import GRADIENT_NORM_ERROR, LOSS_ERROR, PARAMETER_ERROR, Metric
from dsregress.messages import Text, message, plural_message
from dsregress.probe.border.wire import FROZEN_MOVED, GRADIENTS_KEPT, NOTHING_MOVES, SHIFTED_TWICE, Numerics
from dsregress.wording.quantities import shortened


@dataclass(frozen=True)
class Broken:
    """A broken invariant: the metric that it makes wrong, a word for it, and what is said."""

    metric: Metric
    word: str
    said: Text


def broken_invariants(numbers: Numerics) -> Iterator[Broken]:
    """Yield the invariants that a training breaks, of each metric the one from which others follow first."""
    if names := shortened(", ".join(numbers.dropping)):
        said = message("the model evaluates with dropout on, in {names}", names=names)
        yield Broken(LOSS_ERROR, "dropout in evaluation", said)
    if names := shortened(", ".join(numbers.broken.get(SHIFTED_TWICE, ()))):
        said = message("labels are the next tokens already, and {names} shifts them once more", names=names)
        yield Broken(LOSS_ERROR, "labels shifted twice", said)
    if names := shortened(", ".join(numbers.broken.get(GRADIENTS_KEPT, ()))):
        said = message("gradients of the step before are not set to zero, of {names}", names=names)
        yield Broken(GRADIENT_NORM_ERROR, "gradients kept", said)
    if names := shortened(", ".join(numbers.broken.get(NOTHING_MOVES, ()))):
        said = message("no step moves any trained weight, of {names}", names=names)
        yield Broken(PARAMETER_ERROR, "nothing moves", said)
    if names := shortened(", ".join(numbers.broken.get(FROZEN_MOVED, ()))):
        said = message("a step moves frozen weights, {names}", names=names)
        yield Broken(PARAMETER_ERROR, "frozen weights move", said)
    if numbers.replicas_apart:
        said = plural_message(
            "{count} rank has other weights than the first one, of which it is a replica",
            "{count} ranks have other weights than the first one, of which they are replicas",
            numbers.replicas_apart,
        )
        if numbers.apart_in:
            said = message("{said}, in {names}", said=said, names=shortened(", ".join(numbers.apart_in)))
        yield Broken(PARAMETER_ERROR, "replicas apart", said)
