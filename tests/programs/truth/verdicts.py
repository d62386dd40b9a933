"""The verdict on sound training, which several kinds of it have."""

from __future__ import annotations

from dsregress.probe.border.wire import Numerics
from dsregress.probe.oracles import truth


def assert_right(numerics: Numerics) -> None:
    assert not numerics.note.startswith("no truth"), numerics.note
    assert numerics.loss_error is not None
    assert numerics.parameter_error is not None
    assert truth.worst(numerics) <= 1, (numerics.note, numerics.gradient_apart, numerics.first_module)
    assert (numerics.broken, numerics.replicas_apart, numerics.apart_in) == ({}, 0, [])
