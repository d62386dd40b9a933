"""Factors (`dsregress.probe.factors`) as a reduction varies them: from a cell's values to those of the simplest scenario."""

from __future__ import annotations

from collections.abc import Mapping

from dsregress.probe.adapters import DEEPSPEED, TRAINER
from dsregress.probe.factor import Factor, among
from dsregress.probe.factors import FACTORS

#: The scenario whose parameters are the simplest values.
SIMPLEST = "minimal_training"

#: Adapter -> the scenario of the simplest values that it trains.
SIMPLEST_OF = {
    DEEPSPEED: SIMPLEST,
    TRAINER: "minimal_trainer",
}


def varied_in(base: Mapping[str, object]) -> tuple[Factor, ...]:
    """Return the factors that a scenario with these parameters leaves open; one with another first value is part of the
    job."""
    return tuple(one for one in FACTORS if one.name in base and among(base[one.name], one.values[:1]))


def values_of(factor: Factor, parameters: Mapping[str, object]) -> tuple[object, ...]:
    """Return the values to try: the table's, and the cell's own."""
    own = factor.value_in(parameters)
    return factor.values if among(own, factor.values) else (*factor.values, own)
