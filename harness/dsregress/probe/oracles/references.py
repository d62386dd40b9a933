"""The references of a training: the truth, and the yardsticks' distances from it (`dsregress.probe.oracles.truth`).

Only distances of a yardstick are kept, so that the truth of a workload takes little more space than its parameters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dsregress.probe.oracles.reference_training import Trained


@dataclass(frozen=True)
class Truth:
    """A training in fp32."""

    losses: list[float]
    gradient_norms: list[float]  #: infinite if the step was skipped
    parameters: dict[str, torch.Tensor]
    sizes: dict[str, float]  #: of the parameters it began with, as norms
    moved: dict[str, float]  #: by how much it changed each of them, as norms

    @classmethod
    def of(cls, trained: Trained) -> Truth:
        """Return the truth that a training in fp32 gives."""
        return cls(
            losses=trained.losses,
            gradient_norms=trained.gradient_norms,
            parameters={name: trained.parameters[name] for name in trained.start},
            sizes={name: start.norm().item() for name, start in trained.start.items()},
            moved={name: distance(trained.parameters[name], start) for name, start in trained.start.items()},
        )


@dataclass(frozen=True)
class Yardstick:
    """A training in which nothing is wrong but rounding."""

    losses: list[float]
    gradient_norms: list[float]
    distances: dict[str, float]  #: of its parameters from the true ones, as norms

    @classmethod
    def of(cls, trained: Trained, true: Truth) -> Yardstick:
        """Return the yardstick of a training, by its distances from the truth."""
        distances = {name: distance(trained.parameters[name], values) for name, values in true.parameters.items()}
        return cls(losses=trained.losses, gradient_norms=trained.gradient_norms, distances=distances)


@dataclass(frozen=True)
class References:
    """The truth of a workload, and as many yardsticks as were made."""

    true: Truth
    yardsticks: list[Yardstick]

    def as_plain(self) -> dict[str, Any]:
        """Return the references as numbers, tensors, lists and dicts alone."""
        return {"true": vars(self.true), "yardsticks": [dataclasses.asdict(one) for one in self.yardsticks]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> References:
        """Return the references that `as_plain` returned. Raise TypeError or KeyError if it is something else."""
        return cls(Truth(**plain["true"]), [Yardstick(**one) for one in plain["yardsticks"]])


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the norm of the difference, in fp32."""
    return (one.float() - other.float()).norm().item()
