"""Training in plain PyTorch: the same weights, batches and optimizer as a scenario's, in one process, without any
framework.

It computes in one dtype, and keeps and updates its weights in fp32 (`dsregress.probe.oracles.mixed_precision`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from dsregress.probe.oracles.mixed_precision import MixedPrecision
from dsregress.probe.workloads import objectives, workload
from dsregress.probe.workloads.workload import Workload
from skeletons.weights import weight


@dataclass(frozen=True)
class Trained:
    """The result of a few steps of training. Parameters are fp32 and whole."""

    losses: list[float]
    gradient_norms: list[float]  #: infinite if the step was skipped
    start: dict[str, torch.Tensor]
    parameters: dict[str, torch.Tensor]


class Trainee(MixedPrecision):
    """A plain PyTorch model of a scenario in training.

    ``weights_of`` is prefixed to the parameters' names from which their weights are made (`skeletons.weights`). For
    ``perturbations`` see `MixedPrecision`: here they are roundings of the scenario's dtype, whichever dtype is computed
    in.
    """

    def __init__(
        self, work: Workload, model: torch.nn.Module, weights_of: str = "", *, perturbations: int | None = None
    ) -> None:
        self.model = model
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                # Every run, the fp32 one too, starts from the weights that the scenario's dtype can hold.
                parameter.copy_(weight(weights_of + name, tuple(parameter.shape)).to(work.torch_dtype))
        super().__init__(
            dict(model.named_parameters()),
            unit=torch.finfo(work.torch_dtype).eps,
            clip=work.gradient_clipping,
            perturbations=perturbations,
        )
        groups = workload.parameter_groups(dataclasses.replace(work, grouped_frozen=False), model)
        to_master = {id(parameter): self._masters[name] for name, parameter in self._computing.items()}
        for group in groups:
            group["params"] = [to_master[id(p)] for p in group["params"]]
        self._adam = workload.plain_optimizer(work, groups)
        self._schedule = workload.scheduler(work, self._adam)
        self._kept = 0.5 if work.halved_gradients else 1.0  #: of each gradient

    def backward(self, *losses: Callable[[], torch.Tensor], share: float) -> float:
        """Run one micro-batch, with a backward after each loss. It is ``share`` of the step: add that share of its
        gradients to the step's, and return that share of the losses' sum."""
        self.model.zero_grad(set_to_none=True)
        total = 0.0
        for compute in losses:
            loss = compute()
            loss.backward()
            total += float(loss.detach())
        self.accumulate(share * self._kept)
        return share * total

    def update(self) -> float:
        """Take the optimizer's step on the clipped gradients. Return their norm before clipping."""
        norm = self.clipped()
        self._adam.step()
        if self._schedule is not None:
            self._schedule.step()
        self.begin_step()
        return norm

    def skip(self) -> float:
        """Skip a step whose gradients are not finite: update nothing. Return their norm, infinity."""
        self.begin_step()
        return math.inf


def train_plainly(
    work: Workload, shape: Mapping[str, object], steps: int, dtype: torch.dtype, perturbations: int | None = None
) -> Trained:
    """Train in plain PyTorch: compute in ``dtype``, gradients averaged over all ranks' micro-batches in fp32, AdamW on
    fp32. A step with an infinite gradient is skipped, as mixed precision demands (arXiv:1710.03740, section 3.2). For
    ``perturbations`` see `Trainee`."""
    config = workload.model_configuration(work, shape)
    trainee = Trainee(work, workload.build_model(work, config, dtype), perturbations=perturbations)
    objective = objectives.objective_of(work)
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
