"""The numerics oracle: plain PyTorch with the same weights and batches. It needs no baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.compare.pairs import Pair
from harness.model import Finding
from harness.probe.border.wire import NO_NUMBER, Numerics
from harness.wording.quantities import quantity, shortened

_WRONG = {
    "loss_error": ("forward", "the loss is wrong"),
    "gradient_norm_error": ("backward", "the gradient norm is wrong"),
    "parameter_error": ("step", "the updated parameters are wrong"),
}


def judge(pair: Pair) -> list[Finding]:
    """A finding for each quantity that is further from the truth than its tolerance, or no number at all."""
    if not pair.own.suspects:
        return []
    worst: dict[str, tuple[float, int, Numerics]] = {}
    for rank, numbers in pair.own.suspects:
        for name in _WRONG:
            distance = getattr(numbers, name)
            size = 0.0 if distance is None else distance if distance < NO_NUMBER else math.inf
            if size > 1 and size > (worst[name][0] if name in worst else 0.0):
                worst[name] = (size, rank, numbers)
        if "loss_error" not in worst and _lost(numbers):
            worst["loss_error"] = (math.inf, rank, numbers)
    return [_finding(pair, name, *worst[name]) for name in _WRONG if name in worst]


def _lost(numbers: Numerics) -> bool:
    """Whether a loss is no number where the truth has one (or where there is no truth to say that it should be)."""
    for step, loss in enumerate(numbers.losses):
        truth = numbers.true_losses[step] if step < len(numbers.true_losses) else 0.0
        if not _finite(loss) and _finite(truth):
            return True
    return False


def _finding(pair: Pair, name: str, size: float, rank: int, numbers: Numerics) -> Finding:
    phase, words = _WRONG[name]
    measured = size if math.isfinite(size) else "not a number"
    distance = quantity(size, "tolerances") + " from plain PyTorch" if math.isfinite(size) else "not a number"
    return pair.finding(
        metric=name,
        phase=phase,
        kind="wrong",
        value=measured,
        baseline_value=_baseline_value(pair, name),
        ratio=None,
        unit="tolerances",
        significant=True,
        relevant=True,
        message=f"{words}: {distance}, rank {rank}",
        rank=rank,
        evidence=_evidence(name, numbers),
    )


def _baseline_value(pair: Pair, name: str) -> float | None:
    if pair.base is None or pair.is_baseline:
        return None
    distance = dict(pair.base.errors).get(name)
    return distance if _finite(distance) else None


def _evidence(name: str, numbers: Numerics) -> tuple[str, ...]:
    lines = []
    if name == "loss_error":
        lines = _beside("losses", numbers.losses, numbers.true_losses)
    elif name == "gradient_norm_error":
        lines = _beside("gradient norms", numbers.gradient_norms, numbers.true_gradient_norms)
    if numbers.note:
        lines.append(shortened(numbers.note))
    return tuple(lines)


def _beside(words: str, measured: Sequence[float | None], true: Sequence[float | None]) -> list[str]:
    if not measured:
        return []
    text = f"{words} {_numbers(measured)}"
    return [f"{text}; plain PyTorch {_numbers(true)}" if true else text]


def _numbers(values: Sequence[float | None]) -> str:
    return ", ".join("none" if value is None else f"{value:.6g}" for value in values[:5])


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
