"""What can be read off a program's engine or optimizer, besides memory: losses, norms, weights, what is in force."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import _disable_current_modes

from harness.probe.border.wire import NO_TRUTH, Numerics
from harness.probe.workloads.flatten import flatten


class NumericsOracle(Protocol):
    """What a program would train without its framework."""

    def stepped(self) -> None:
        """The model that is judged has taken a step."""

    def judge(self, stepper: Any, trained: Mapping[str, torch.Tensor], numerics: Numerics) -> None:
        """Fills in the truth and the distances from it, or why there is none. ``trained`` are whole parameters. Every rank
        takes part, and rank 0 judges."""


def scalar(loss: Any) -> list[float]:
    """The value of a loss that is one number; nothing of anything else. Takes part in no meter."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_meta:
        return []
    with _disable_current_modes():
        return [float(loss.detach())]


def mean(losses: Sequence[float]) -> float | None:
    """Over the micro-batches of a step."""
    return sum(losses) / len(losses) if losses else None


def gradient_norm(stepper: Any) -> float | None:
    """As the engine reports it; of an optimizer that has just stepped, that of the gradients which it used. None where there
    are none any more, and where FSDP1 has sharded them, since a part tells nothing. A collective operation of the ranks
    among which gradients are sharded. Takes part in no meter."""
    if is_engine(stepper):
        norm = stepper.get_global_grad_norm()
        return None if norm is None else float(norm)
    parameters = [parameter for group in stepper.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients or any(hasattr(parameter, "_fsdp_flattened") for parameter in parameters):
        return None
    with _disable_current_modes(), torch.no_grad():
        return math.hypot(*(whole(torch.linalg.vector_norm(_values(one), dtype=_wide(one))) for one in gradients))


def whole(norm: Any) -> float:
    """The value of a norm, which is sharded where the gradients are. Takes part in no meter."""
    with _disable_current_modes():
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def _values(gradient: Any) -> Any:
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def _wide(gradient: Any) -> torch.dtype:
    """In which its norm is taken: half precision has too few digits, and fp16 too short a range."""
    return torch.promote_types(gradient.dtype, torch.float32)


def learning_rates(stepper: Any) -> list[float]:
    """With which the next step will be taken: those of its groups, each once, the highest first. None that is a tensor,
    whose value a simulation does not know."""
    optimizer = stepper.optimizer if is_engine(stepper) else stepper
    rates = {group.get("lr") for group in getattr(optimizer, "param_groups", ())}
    return sorted((float(rate) for rate in rates if isinstance(rate, (int, float))), reverse=True)


def weight_bits(stepper: Any) -> float | None:
    """Bits of a weight as the optimizer steps it, the mean over all: 32 where training in half precision keeps fp32 weights
    beside those that the model computes with. None where its groups are empty, as ZeRO-3's are between its steps."""
    optimizer = getattr(stepper, "optimizer", None) if is_engine(stepper) else stepper
    parameters = [one for group in getattr(optimizer, "param_groups", ()) for one in group["params"]]
    weights = sum(one.numel() for one in parameters)
    return sum(one.numel() * _bits(one.dtype) for one in parameters) / weights if weights else None


def _bits(dtype: torch.dtype) -> int:
    return (torch.finfo if dtype.is_floating_point or dtype.is_complex else torch.iinfo)(dtype).bits


def loss_scale(stepper: Any) -> float | None:
    """What an engine in fp16 multiplies its losses by; None where there is no such thing."""
    in_fp16 = getattr(stepper, "fp16_enabled", None) if is_engine(stepper) else None
    scale = getattr(stepper.optimizer, "cur_scale", None) if in_fp16 is not None and in_fp16() else None
    return None if scale is None else float(scale)


def gathered(stepper: Any, numerics: Numerics) -> dict[str, torch.Tensor]:
    """What `parameters` has, with its digest in ``numerics``. A collective operation of the engine's ranks."""
    trained = dict(parameters(stepper))
    numerics.parameter_digest = _digest(trained)
    numerics.note = NO_TRUTH
    return trained


def has_left_its_group() -> bool:
    """Whether it has destroyed the process group of its ranks, so that nothing can be gathered any more."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and not torch.distributed.is_initialized()


def configuration(stepper: Any) -> dict[str, Any]:
    """What is in force, as dotted keys."""
    if is_engine(stepper):
        from harness.probe.frameworks import deepspeed_engine

        model_config = getattr(stepper.module, "config", None)
        return deepspeed_engine.configuration(
            stepper, model_config if hasattr(model_config, "to_dict") else _NoConfig()
        )
    return {
        "optimizer": type(stepper).__name__,
        **flatten("optimizer", {name: value for name, value in stepper.defaults.items() if _is_plain(value)}),
    }


def is_engine(stepper: Any) -> bool:
    """Whether it is DeepSpeed's."""
    return hasattr(stepper, "get_global_grad_norm")


def is_same_model(stepper: Any, other: Any) -> bool:
    """Whether both are engines, of parameters with the same names."""

    def names(engine: Any) -> list[str]:
        return [name for name, _ in engine.module.named_parameters()]

    return is_engine(stepper) and is_engine(other) and names(stepper) == names(other)


class _NoConfig:
    """The configuration of a model that has none."""

    def to_dict(self) -> dict[str, Any]:
        return {}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, tuple, list))


def parameters(stepper: Any) -> Mapping[str, torch.Tensor]:
    """The whole ones that an engine trains, a collective operation of its ranks; of an optimizer, this rank's parts."""
    if is_engine(stepper):
        from harness.probe.frameworks import deepspeed_engine

        whole: Mapping[str, torch.Tensor] = deepspeed_engine.whole_parameters(stepper.module)
        return whole
    numbered = (parameter for group in stepper.param_groups for parameter in group["params"])
    return {f"{number:06}": _local(parameter) for number, parameter in enumerate(numbered)}


def _local(parameter: Any) -> torch.Tensor:
    """This rank's part of it, where it is sharded by FSDP."""
    local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    values: torch.Tensor = local.detach().cpu()
    return values


def _digest(parameters: Mapping[str, torch.Tensor]) -> str:
    from harness.probe.oracles.truth import digest

    return digest(parameters)
