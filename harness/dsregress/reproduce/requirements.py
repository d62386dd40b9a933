"""Rules on factors: values that require values of other factors, because they cannot be configured otherwise. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dsregress.probe.factor import among
from dsregress.probe.factors import BY_NAME, FACTORS


class Requirement(msgspec.Struct, frozen=True):
    """Values of one factor that require values of another."""

    name: str
    values: tuple[Any, ...]
    other: str
    needed: tuple[Any, ...]

    def holds(self, row: Mapping[str, object]) -> bool:
        """Return True if a row of parameters satisfies the rule. A row without the factor does: a job by Trainer has no
        model outputs."""
        if self.name not in row or not among(row[self.name], self.values):
            return True
        return among(BY_NAME[self.other].value_in(row), self.needed)


#: By DeepSpeed's own checks of a configuration, and by what the workload computes.
REQUIREMENTS = tuple(
    Requirement(factor.name, need.values or factor.explored[1:], need.other, need.needed)
    for factor in FACTORS
    for need in factor.needs
)


def is_valid(parameters: Mapping[str, object]) -> bool:
    """Return True if the parameters satisfy all rules."""
    return all(rule.holds(parameters) for rule in REQUIREMENTS)
