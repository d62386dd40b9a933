"""Training in plain PyTorch: the same weights, batches and optimizer as a scenario's, in one process, without any framework.

It computes in one dtype, and keeps and updates its weights in fp32: mixed precision with master weights, as in Micikevicius
et al., "Mixed Precision Training", 2018 (arXiv:1710.03740).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from harness.probe.workloads import objectives, workload
from harness.probe.workloads.workload import Workload


@dataclass(frozen=True)
class Trained:
    """The result of a few steps of training. Parameters are fp32 and whole."""

    losses: list[float]
    gradient_norms: list[float]  #: infinite where the step was skipped
    start: dict[str, torch.Tensor]
    parameters: dict[str, torch.Tensor]


class Trainee:
    """A plain PyTorch model in training: it computes in one dtype, and keeps and updates its weights in fp32.

    ``weights_of`` is put before the parameters' names where their weights are made (`workload.weight`).

    With a seed of ``perturbations``, the weights that a step computes with are off by up to one rounding of the scenario's
    dtype, drawn anew for each step; those that are kept and updated are not. By backward error analysis that is what any
    other sound way of rounding does: another processor's instructions, another order of additions (Higham, "Accuracy and
    Stability of Numerical Algorithms", 2nd edition, sections 1.5 and 3.1). How far such a training strays from one without
    perturbations is how well the problem is conditioned.
    """

    def __init__(
        self, work: Workload, model: torch.nn.Module, weights_of: str = "", *, perturbations: int | None = None
    ) -> None:
        self.model = model
        self._unit = torch.finfo(work.torch_dtype).eps
        self._draws = None if perturbations is None else torch.Generator().manual_seed(perturbations)
        self._clip = work.gradient_clipping
        self._computing = dict(model.named_parameters())
        self._masters: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            for name, parameter in self._computing.items():
                # Every run starts from the weights that the scenario's dtype can hold, also the fp32 one.
                values = workload.weight(weights_of + name, tuple(parameter.shape)).to(work.torch_dtype).float()
                self._masters[name] = values.clone().requires_grad_(True)
        groups = workload.parameter_groups(work, model)
        to_master = {id(parameter): self._masters[name] for name, parameter in self._computing.items()}
        for group in groups:
            group["params"] = [to_master[id(p)] for p in group["params"]]
        self._adam = workload.optimizer(work, groups)
        self._schedule = workload.scheduler(work, self._adam)
        self.start = {name: values.detach().clone() for name, values in self._masters.items()}
        self._begin_step()

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        return {name: values.detach() for name, values in self._masters.items()}

    def backward(self, *losses: Callable[[], torch.Tensor], share: float) -> float:
        """One micro-batch, with a backward after each loss. It is ``share`` of the step: that share of its gradients is
        added to the step's, and that share of the losses' sum is returned."""
        self.model.zero_grad(set_to_none=True)
        total = 0.0
        for compute in losses:
            loss = compute()
            loss.backward()
            total += float(loss.detach())
        for name, parameter in self._computing.items():
            if parameter.grad is not None:
                self._sums[name] += share * parameter.grad.float()
        return share * total

    def update(self) -> float:
        """The optimizer's step on the gradients, clipped. Returns their norm before clipping."""
        norm = math.sqrt(sum(float(values.double().pow(2).sum()) for values in self._sums.values()))
        scale = self._clip / (norm + 1e-6) if self._clip and norm > self._clip else 1.0
        for name, master in self._masters.items():
            master.grad = self._sums[name] * scale
        self._adam.step()
        if self._schedule is not None:
            self._schedule.step()
        self._begin_step()
        return norm

    def skip(self) -> float:
        """A step whose gradients are not finite: nothing is updated. Returns their norm."""
        self._begin_step()
        return math.inf

    def _begin_step(self) -> None:
        """Computes with the weights as they are now, from gradients of zero."""
        with torch.no_grad():
            for name, parameter in self._computing.items():
                parameter.copy_(self._perturbed(self._masters[name]))
        self._sums = {name: torch.zeros_like(values) for name, values in self._masters.items()}

    def _perturbed(self, values: torch.Tensor) -> torch.Tensor:
        if self._draws is None:
            return values
        return values * (1 + self._unit * (2 * torch.rand(values.shape, generator=self._draws) - 1))


def train(
    work: Workload, shape: Mapping[str, Any], steps: int, dtype: torch.dtype, perturbations: int | None = None
) -> Trained:
    """Plain PyTorch: compute in ``dtype``, gradients averaged over all ranks' micro-batches in fp32, AdamW on fp32. A step
    with an infinite gradient is skipped, as mixed precision demands (arXiv:1710.03740, section 3.2). For
    ``perturbations`` see `Trainee`."""
    config = workload.configuration(work, shape)
    trainee = Trainee(work, workload.build(work, config, dtype), perturbations=perturbations)
    objective = objectives.of(work)
    losses, norms = [], []
    for step in range(steps):
        batches = list(objective.all_data(work, config.vocab_size, step))
        weights = [objective.weight(data) for data in batches]
        losses.append(
            sum(
                trainee.backward(
                    *(functools.partial(loss, trainee.model, data) for loss in objective.losses),
                    share=weight / sum(weights),
                )
                for data, weight in zip(batches, weights)
            )
        )
        norms.append(trainee.skip() if step == work.infinite_gradient_step else trainee.update())
    return Trained(losses, norms, trainee.start, trainee.parameters)
