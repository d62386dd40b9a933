"""The truth about numerics: the same weights, batches and optimizer through plain PyTorch, without any framework.

Trained twice in one process on all ranks' batches: in fp32, which is the truth, and in the dtype of the scenario with fp32
master weights, which is the yardstick: how far rounding alone strays from the truth. A framework is wrong where it strays
several times as far. Mixed precision with master weights is that of Micikevicius et al., "Mixed
Precision Training", 2018 (arXiv:1710.03740).
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.probe.border.wire import Numerics
from harness.probe.workloads import objectives, workload
from harness.probe.workloads.workload import Workload

#: How many times the yardstick's own distance from the truth is still rounding.
ROUNDING_FACTOR = 4.0
#: The least relative distance that counts as wrong, by dtype, for the loss, the gradient norm and a parameter's
#: movement. The yardstick can be accidentally exact, and ranks add in another order. Sound releases were measured at a
#: quarter of these or less; a single norm layer trained with nine tenths of its gradient is beyond them.
FLOORS = {"fp32": (1e-5, 1e-4, 1e-3), "bf16": (1e-3, 2e-2, 3e-2), "fp16": (1e-3, 1e-2, 2e-2)}


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
    """

    def __init__(self, work: Workload, model: torch.nn.Module, weights_of: str = "") -> None:
        self.model = model
        self._clip = work.gradient_clipping
        self._computing = dict(model.named_parameters())
        self._masters: dict[str, torch.Tensor] = {}
        with torch.no_grad():
            for name, parameter in self._computing.items():
                # Every run starts from the weights that the scenario's dtype can hold, also the fp32 one.
                values = workload.weight(weights_of + name, tuple(parameter.shape)).to(work.torch_dtype).float()
                parameter.copy_(values)
                self._masters[name] = values.clone().requires_grad_(True)
        groups = workload.parameter_groups(work, model)
        to_master = {id(parameter): self._masters[name] for name, parameter in self._computing.items()}
        for group in groups:
            group["params"] = [to_master[id(p)] for p in group["params"]]
        self._adam = workload.optimizer(work, groups)
        self._schedule = workload.scheduler(work, self._adam)
        self.start = {name: values.detach().clone() for name, values in self._masters.items()}
        self._forget()

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
        with torch.no_grad():
            for name, parameter in self._computing.items():
                parameter.copy_(self._masters[name])
        self._forget()
        return norm

    def skip(self) -> float:
        """A step whose gradients are not finite: nothing is updated. Returns their norm."""
        self._forget()
        return math.inf

    def _forget(self) -> None:
        self._sums = {name: torch.zeros_like(values) for name, values in self._masters.items()}


def train(work: Workload, shape: Mapping[str, Any], steps: int, dtype: torch.dtype) -> Trained:
    """Plain PyTorch: compute in ``dtype``, gradients averaged over all ranks' micro-batches in fp32, AdamW on fp32. A step
    with an infinite gradient is skipped, as mixed precision demands (arXiv:1710.03740, section 3.2)."""
    config = workload.configuration(work, shape)
    trainee = Trainee(work, workload.build(work, config, dtype))
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


def judge(
    work: Workload,
    shape: Mapping[str, Any],
    steps: int,
    trained: Mapping[str, torch.Tensor],
    numerics: Numerics,
    train: Callable[[Workload, Mapping[str, Any], int, torch.dtype], Trained] = train,
) -> None:
    """Fills in the truth and the distances from it, each divided by its tolerance: above 1 is wrong. ``trained`` holds
    whole parameters after ``steps`` steps, in fp32 where the framework keeps them so.

    After an infinite gradient fp16 promises what the truth does, to skip the step. bf16 and fp32 promise less: either
    that, or that the reported norm is not finite, so that the user can stop before such weights are saved (the adapter
    reports the norm; DeepSpeed documents ``check_grad_overflow`` of bf16 for newer releases only).
    """
    numerics.parameter_digest = digest(trained)
    if work.lora_dropout:
        numerics.note = "no truth: dropout is random"
        return
    true = train(work, shape, steps, torch.float32)
    yardstick = train(work, shape, steps, work.torch_dtype)
    numerics.true_losses = list(true.losses)
    numerics.true_gradient_norms = [_number(norm) for norm in true.gradient_norms]
    norms = numerics.gradient_norms
    at = work.infinite_gradient_step
    unreported = at is not None and at < len(norms) and work.dtype != "fp16" and _is_number(norms[at])
    poisoned = at is not None and not all(bool(values.isfinite().all()) for values in trained.values())
    judged = range(steps)
    if poisoned and work.dtype != "fp16":
        assert at is not None
        judged = range(at + 1)  # what comes after it is not promised
        numerics.true_losses[at + 1 :] = [None] * (steps - at - 1)
    loss_floor, norm_floor, parameter_floor = FLOORS[work.dtype]
    numerics.loss_error = _worst_error(numerics.losses, true.losses, yardstick.losses, loss_floor, judged)
    if unreported:
        numerics.gradient_norm_error = math.inf
    elif all(norm is not None for step, norm in enumerate(norms) if step in judged and step != at):
        finite = [step for step in judged if step != at]
        numerics.gradient_norm_error = _worst_error(
            norms, true.gradient_norms, yardstick.gradient_norms, norm_floor, finite
        )
    if poisoned and work.dtype != "fp16":
        numerics.note = f"step {at} had an infinite gradient, which reached the weights and which its norm reports"
        return
    numerics.parameter_error, numerics.note = _worst_parameter(true, yardstick, trained, parameter_floor)


def _worst_parameter(
    true: Trained, yardstick: Trained, trained: Mapping[str, torch.Tensor], floor: float
) -> tuple[float, str]:
    """The largest distance of a parameter from the truth in tolerances, and which one it is."""
    worst, at = 0.0, ""
    for name, start in true.start.items():
        if name not in trained:
            return math.inf, f"{name} is missing"
        moved = (true.parameters[name] - start).norm().item()
        distance = (trained[name].float() - true.parameters[name]).norm().item()
        rounding = (yardstick.parameters[name] - true.parameters[name]).norm().item()
        # Where the framework keeps no fp32 weights, its weights are as coarse as their dtype.
        coarse = 0.0 if trained[name].dtype == torch.float32 else torch.finfo(trained[name].dtype).eps
        tolerance = max(ROUNDING_FACTOR * rounding, floor * moved, 1e-12) + coarse * start.norm().item()
        error = distance / tolerance if math.isfinite(distance) else math.inf
        if error > worst:
            worst, at = error, f"furthest from the truth: {name}"
    return worst, at


def digest(parameters: Mapping[str, torch.Tensor]) -> str:
    """A hash of all parameters, in the order of their names."""
    sha = hashlib.sha256()
    for name in sorted(parameters):
        sha.update(name.encode())
        sha.update(parameters[name].contiguous().float().numpy().tobytes())
    return sha.hexdigest()[:16]


def _worst_error(
    measured: Sequence[float | None],
    true: Sequence[float],
    yardstick: Sequence[float],
    floor: float,
    steps: Iterable[int],
) -> float:
    steps = list(steps)
    # Rounding of the size in one step is rounding in each step: a loss near zero can be accidentally exact.
    rounding = ROUNDING_FACTOR * max((abs(yardstick[step] - true[step]) for step in steps), default=0.0)
    worst = 0.0
    for step in steps:
        value, truth = measured[step], true[step]
        tolerance = max(rounding, floor * abs(truth), 1e-12)
        error = abs(value - truth) / tolerance if value is not None else math.inf
        worst = max(worst, error) if math.isfinite(error) else math.inf
    return worst


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _is_number(norm: float | None) -> bool:
    """Whether a reported norm is a finite one. DeepSpeed reports -1 for one that is not."""
    return norm is not None and math.isfinite(norm) and norm >= 0
