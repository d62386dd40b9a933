"""The truth about numerics: the same weights, batches and optimizer through plain PyTorch, without any framework.

Training in fp32 is the truth. Trainings in the dtype of the scenario with fp32 master weights are the yardsticks: one
without changes, and several with weights perturbed by a rounding (see `dsregress.probe.oracles.reference_training`). So the
tolerance follows from the problem: if rounding alone moves a parameter far, as when Adam divides a gradient near zero by
its own size, or when a token is at the edge of a clipped loss, the yardsticks spread as far. A framework is wrong if it
strays further than the yardsticks do.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from dsregress.probe.border.wire import Numerics
from dsregress.probe.oracles import reference_training, truth_store
from dsregress.probe.oracles.plain_memory import original_linear
from dsregress.probe.oracles.reference_training import Trained
from dsregress.probe.oracles.references import References, Truth, Yardstick, distance
from dsregress.probe.workloads.workload import Workload

#: How many times the furthest yardstick's distance from the truth still counts as rounding. Sound releases were measured at
#: half of the tolerance or less.
SPREAD_FACTOR = 2.0
#: Yardsticks of every run: the unperturbed one, and three more.
YARDSTICKS = 4
#: Yardsticks before a run is called wrong. Four yardsticks can miss what rounding does rarely, such as moving a token over
#: the edge of a clipped loss.
YARDSTICKS_OF_A_SUSPICION = 16
#: Tolerances beyond which more yardsticks explain nothing: none observed strays ten times as far as another one.
BEYOND_DOUBT = 10.0
#: The least relative distance that counts as wrong, by dtype, for the loss, the gradient norm and a parameter's
#: movement: ranks add in another order, and communicate gradients in the scenario's dtype. A single norm layer trained
#: with nine tenths of its gradient exceeds them.
FLOORS = {"fp32": (1e-5, 1e-4, 1e-3), "bf16": (1e-3, 2e-2, 3e-2), "fp16": (1e-3, 1e-2, 2e-2)}

#: Trains the same job in plain PyTorch: in a dtype, with a seed of perturbations (see `training.Trainee`).
Train = Callable[[torch.dtype, int | None], Trained]


def judge_training(
    work: Workload,
    shape: Mapping[str, object],
    steps: int,
    trained: Mapping[str, torch.Tensor],
    numerics: Numerics,
    train: Train | None = None,
    file: Path | None = None,
) -> None:
    """Fill in the truth and the distances from it, each divided by its tolerance: above 1 is wrong. ``trained`` holds
    whole parameters after ``steps`` steps, in fp32 if the framework keeps them so. ``train`` is by default
    `reference_training.train_plainly` of the workload; ``file`` is the file that keeps its truth (`truth_store`).

    After an infinite gradient fp16 promises to skip the step, as the truth does. bf16 and fp32 promise less: either
    that, or that the reported norm is not finite, so that the user can stop before such weights are saved (the adapter
    reports the norm; DeepSpeed documents ``check_grad_overflow`` of bf16 for newer releases only).
    """
    numerics.parameter_digest = parameter_digest(trained)
    if work.lora_dropout:
        numerics.note = "no truth: dropout is random"
        return
    if train is None:
        train, file = (
            functools.partial(reference_training.train_plainly, work, shape, steps),
            truth_store.file_of(work, shape, steps),
        )
    judged = JudgedTraining(
        dtype=work.dtype, steps=steps, trained=trained, infinite_gradient_step=work.infinite_gradient_step
    )
    with original_linear():
        kept = truth_store.read_references(file) if file is not None else None
        references = kept or References(Truth.of(train(torch.float32, None)), [])
        stored = len(references.yardsticks)
        used = _compare_with_yardsticks(
            judged, numerics, references, functools.partial(_yardstick, work.torch_dtype, train)
        )
    if file is not None and used > stored:
        truth_store.write_references(file, references)


def _compare_with_yardsticks(
    judged: JudgedTraining, numerics: Numerics, references: References, make: Callable[[Truth, int], Yardstick]
) -> int:
    """Compare with as many yardsticks as the doubt requires, and return their number. Yardsticks that ``references``
    lacks are made and added."""
    wanted = YARDSTICKS
    while True:
        for number in range(len(references.yardsticks), wanted):
            references.yardsticks.append(make(references.true, number))
        judged.compare(numerics, references.true, references.yardsticks[:wanted])
        if not 1 < worst(numerics) < BEYOND_DOUBT or wanted == YARDSTICKS_OF_A_SUSPICION:
            return wanted
        wanted += 1


def _yardstick(dtype: torch.dtype, train: Train, true: Truth, number: int) -> Yardstick:
    """Return the yardstick of this number. The first is not perturbed; in fp32 it is the truth itself."""
    if number == 0 and dtype == torch.float32:
        return Yardstick(true.losses, true.gradient_norms, dict.fromkeys(true.parameters, 0.0))
    return Yardstick.of(train(dtype, number or None), true)


@dataclass(frozen=True, kw_only=True)
class JudgedTraining:
    """A training by a framework: ``steps`` steps in a dtype of `FLOORS`, and the whole parameters after them."""

    dtype: str
    steps: int
    trained: Mapping[str, torch.Tensor]
    infinite_gradient_step: int | None = None

    def compare(self, numerics: Numerics, true: Truth, yardsticks: Sequence[Yardstick]) -> None:
        """Fill in what is true and how far the training is from it. Steps are judged for which the truth has numbers."""
        numerics.true_losses = [_finite(loss) for loss in true.losses]
        numerics.true_gradient_norms = [_finite(norm) for norm in true.gradient_norms]
        norms = numerics.gradient_norms
        at = self.infinite_gradient_step
        unreported = at is not None and at < len(norms) and self.dtype != "fp16" and _is_number(norms[at])
        poisoned = at is not None and not all(bool(values.isfinite().all()) for values in self.trained.values())
        judged = range(self.steps)
        if poisoned and self.dtype != "fp16":
            assert at is not None
            judged = range(at + 1)  # later steps are not promised
            numerics.true_losses[at + 1 :] = [None] * (self.steps - at - 1)
        loss_floor, norm_floor, parameter_floor = FLOORS[self.dtype]
        losses = [yardstick.losses for yardstick in yardsticks]
        known = [step for step in judged if math.isfinite(true.losses[step])]
        numerics.loss_error = _worst_error(numerics.losses, true.losses, losses, loss_floor, known)
        finite = [step for step in judged if math.isfinite(true.gradient_norms[step])]
        if unreported:
            numerics.gradient_norm_error = math.inf
        elif all(norms[step] is not None for step in finite):
            spread = [yardstick.gradient_norms for yardstick in yardsticks]
            numerics.gradient_norm_error = _worst_error(norms, true.gradient_norms, spread, norm_floor, finite)
        if poisoned and self.dtype != "fp16":
            numerics.note = f"step {at} had an infinite gradient, which reached the weights and which its norm reports"
            return
        numerics.parameter_error, numerics.note = _worst_parameter(true, yardsticks, self.trained, parameter_floor)


def worst(numerics: Numerics) -> float:
    """Return the largest of a training's distances from the truth, in tolerances."""
    errors = (numerics.loss_error, numerics.gradient_norm_error, numerics.parameter_error)
    return max((error for error in errors if error is not None), default=0.0)


def _worst_parameter(
    true: Truth, yardsticks: Sequence[Yardstick], trained: Mapping[str, torch.Tensor], floor: float
) -> tuple[float, str]:
    """Return the largest distance of a parameter from the truth, in tolerances, and a note with its name."""
    worst, at = 0.0, ""
    for name, values in true.parameters.items():
        if name not in trained:
            return math.inf, f"{name} is missing"
        if trained[name].shape != values.shape:
            return math.inf, f"{name} has the shape {list(trained[name].shape)} instead of {list(values.shape)}"
        away = distance(trained[name], values)
        spread = max(yardstick.distances[name] for yardstick in yardsticks)
        # If the framework keeps no fp32 weights, its weights are as coarse as their dtype.
        coarse = 0.0 if trained[name].dtype == torch.float32 else torch.finfo(trained[name].dtype).eps
        tolerance = max(SPREAD_FACTOR * spread, floor * true.moved[name], 1e-12) + coarse * true.sizes[name]
        error = away / tolerance if math.isfinite(away) else math.inf
        if error > worst:
            worst, at = error, f"furthest from the truth: {name}"
    return worst, at


def parameter_digest(parameters: Mapping[str, torch.Tensor]) -> str:
    """Return a hash of all parameters, in the order of their names."""
    sha = hashlib.sha256()
    for name in sorted(parameters):
        sha.update(name.encode())
        sha.update(parameters[name].contiguous().float().numpy().tobytes())
    return sha.hexdigest()[:16]


def _worst_error(
    measured: Sequence[float | None],
    true: Sequence[float],
    yardsticks: Sequence[Sequence[float]],
    floor: float,
    steps: Iterable[int],
) -> float:
    steps = list(steps)
    # Rounding of the size in one step is rounding in each step: a loss near zero can be accidentally exact.
    spread = max((abs(values[step] - true[step]) for values in yardsticks for step in steps), default=0.0)
    worst = 0.0
    for step in steps:
        value, truth = measured[step], true[step]
        tolerance = max(SPREAD_FACTOR * spread, floor * abs(truth), 1e-12)
        error = abs(value - truth) / tolerance if value is not None else math.inf
        worst = max(worst, error) if math.isfinite(error) else math.inf
    return worst


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _is_number(norm: float | None) -> bool:
    """Return True if a reported norm is finite. DeepSpeed reports -1 for one that is not."""
    return norm is not None and math.isfinite(norm) and norm >= 0
