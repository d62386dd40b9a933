"""Weights in training: computed with in one dtype, kept and updated in fp32.

Mixed precision with master weights, as in Micikevicius et al., "Mixed Precision Training", 2018 (arXiv:1710.03740).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch


class MixedPrecision:
    """The parameters of a model that trains, by name, with the sums of their gradients.

    With a seed of ``perturbations``, the weights that a step computes with are perturbed by up to one rounding, of the
    size ``unit``, drawn anew for each step; the weights that are kept and updated are not. By backward error analysis
    any other sound way of rounding does the same: another processor's instructions, another order of additions (Higham,
    "Accuracy and Stability of Numerical Algorithms", 2nd edition, sections 1.5 and 3.1). How far such a training strays
    from one without perturbations shows how well the problem is conditioned. With another seed of
    ``gradient_perturbations``, the sums of gradients are perturbed as well, after each addition: a framework may add
    them up in the dtype of its computation. That seed must differ between ranks, since what ranks' gradients have in
    common may cancel while their roundings do not. ``frozen`` are weights that are computed with and never updated: they
    are perturbed, too.
    """

    def __init__(
        self,
        parameters: Mapping[str, torch.nn.Parameter],
        *,
        unit: float,
        clip: float | None = None,
        perturbations: int | None = None,
        gradient_perturbations: int | None = None,
        frozen: Iterable[torch.nn.Parameter] = (),
    ) -> None:
        self._unit, self._clip = unit, clip
        self._draws, self._gradient_draws = _generator(perturbations), _generator(gradient_perturbations)
        self._computing = dict(parameters)
        self._masters: dict[str, torch.Tensor] = {
            name: parameter.detach().float().clone().requires_grad_(True) for name, parameter in parameters.items()
        }
        self._frozen = [] if perturbations is None else [(values, values.detach().clone()) for values in frozen]
        self.start = {name: values.detach().clone() for name, values in self._masters.items()}
        self.begin_step()

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """Return the weights as they are kept, by name: in fp32."""
        return {name: values.detach() for name, values in self._masters.items()}

    def master(self, name: str) -> torch.Tensor:
        """Return the fp32 weight that an optimizer updates."""
        return self._masters[name]

    def gradients(self) -> Iterable[torch.Tensor]:
        """Return the step's gradients so far: in fp32, to be changed in place."""
        return self._sums.values()

    def has_gradients(self) -> bool:
        """Return True if a backward left gradients that have not been added up yet."""
        return any(parameter.grad is not None for parameter in self._computing.values())

    def accumulate(self, share: float) -> None:
        """Add that share of the gradients to the step's, and drop them."""
        for name, parameter in self._computing.items():
            if parameter.grad is not None:
                added = self._sums[name] + share * parameter.grad.float()
                self._sums[name] = self._perturbed(added, self._gradient_draws)
                parameter.grad = None

    def clipped(self) -> float:
        """Give the step's gradients to the optimizer, clipped. Return their norm before clipping."""
        norm = math.sqrt(sum(float(values.double().pow(2).sum()) for values in self._sums.values()))
        scale = self._clip / (norm + 1e-6) if self._clip and norm > self._clip else 1.0
        for name, master in self._masters.items():
            master.grad = self._sums[name] * scale
        return norm

    def begin_step(self) -> None:
        """Compute with the current weights from now on, and begin the gradients at zero."""
        with torch.no_grad():
            for name, parameter in self._computing.items():
                parameter.copy_(self._perturbed(self._masters[name], self._draws))
            for computing, kept in self._frozen:
                computing.copy_(self._perturbed(kept, self._draws))
        self._sums = {name: torch.zeros_like(values) for name, values in self._masters.items()}

    def _perturbed(self, values: torch.Tensor, draws: torch.Generator | None) -> torch.Tensor:
        if draws is None:
            return values
        return values * (1 + self._unit * (2 * torch.rand(values.shape, generator=draws) - 1))


def _generator(seed: int | None) -> torch.Generator | None:
    return None if seed is None else torch.Generator().manual_seed(seed)
