"""Facts read from a program's engine or optimizer, besides memory: losses, norms, weights, the configuration in force."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.border.wire import NO_TRUTH, Numerics
from dsregress.probe.workloads.flatten import flatten
from dsregress.programs.watch.tensor_names import without_numbers


class NumericsOracle(Protocol):
    """Judges a program's training by what it would train without its framework."""

    def stepped(self) -> None:
        """Called after the judged model took a step."""

    def judge(self, stepper: object, trained: Mapping[str, torch.Tensor], numerics: Numerics) -> None:
        """Fill in the truth and the distances from it, or the reason for their absence. ``trained`` are whole
        parameters. Collective: every rank must call it; rank 0 judges."""


def loss_values(loss: object) -> list[float]:
    """Return the value of a loss that is a single known number, else an empty list. Unmetered."""
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or loss.is_meta:
        return []
    with _disable_current_modes():
        return [float(loss.detach())]


def mean_loss(losses: Sequence[float]) -> float | None:
    """Return the mean loss over the micro-batches of a step; None if there are none."""
    return sum(losses) / len(losses) if losses else None


def gradient_norm(stepper: Any) -> float | None:
    """Return the gradient norm that the engine reports or, for an optimizer that has just stepped, the norm of the
    gradients that it used.

    None if no gradients are left, or if FSDP1 has sharded them, since a part tells nothing. Collective among the ranks
    over which gradients are sharded. Unmetered.
    """
    if is_engine(stepper):
        norm = stepper.get_global_grad_norm()
        return None if norm is None else float(norm)
    parameters = [parameter for group in stepper.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients or any(hasattr(parameter, "_fsdp_flattened") for parameter in parameters):
        return None
    with _disable_current_modes(), torch.no_grad():
        return math.hypot(*(whole_norm(torch.linalg.vector_norm(_dense(one), dtype=_wide(one))) for one in gradients))


def steps_without_gradient(stepper: Any) -> bool:
    """Return True for an optimizer that steps weights of which none has a gradient."""
    if is_engine(stepper) or stepper is None:
        return False
    return all(parameter.grad is None for group in stepper.param_groups for parameter in group["params"])


def whole_norm(norm: Any) -> float:
    """Return the full value of a possibly sharded norm, unmetered."""
    with _disable_current_modes():
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


def _dense(gradient: Any) -> object:
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def _wide(gradient: Any) -> torch.dtype:
    """Return the dtype in which a gradient's norm is taken: half precision has too few digits, and fp16 too short a
    range."""
    return torch.promote_types(gradient.dtype, torch.float32)


def learning_rates(stepper: Any) -> list[float]:
    """Return the learning rates of the next step: the distinct rates of all groups, the highest first. Rates that are
    tensors are left out, since a simulation does not know their values."""
    optimizer = stepper.optimizer if is_engine(stepper) else stepper
    rates = {group.get("lr") for group in getattr(optimizer, "param_groups", ())}
    return sorted((float(rate) for rate in rates if isinstance(rate, (int, float))), reverse=True)


def weight_bits(stepper: object) -> float | None:
    """Return the mean number of bits per weight that the optimizer steps: 32 if half-precision training keeps fp32
    weights in addition to those of the model. None if the groups are empty, as ZeRO-3's are between steps."""
    optimizer = getattr(stepper, "optimizer", None) if is_engine(stepper) else stepper
    parameters = [one for group in getattr(optimizer, "param_groups", ()) for one in group["params"]]
    weights = sum(one.numel() for one in parameters)
    return sum(one.numel() * _bits(one.dtype) for one in parameters) / weights if weights else None


#: Dtypes of fewer weights than this share are left out.
_FEW = 0.01


def weight_dtypes(module: torch.nn.Module) -> str:
    """Return the dtypes of a model's weights, that of the most first: ``uint8, float16``. ZeRO-3 knows how many a parameter
    has that is partitioned."""
    weights: dict[str, int] = {}
    for parameter in module.parameters():
        name = str(parameter.dtype).removeprefix("torch.")
        weights[name] = weights.get(name, 0) + _whole_size(parameter)
    total = sum(weights.values())
    return ", ".join(name for name, size in sorted(weights.items(), key=lambda one: -one[1]) if size > _FEW * total)


def trained_weights(module: torch.nn.Module) -> dict[str, int]:
    """Return how many of a model's weights are trained, by the names of their tensors without numbers. Empty under FSDP1,
    which makes other tensors of them."""
    weights: dict[str, int] = {}
    for name, parameter in module.named_parameters():
        if hasattr(parameter, "_fsdp_flattened"):
            return {}
        if parameter.requires_grad:
            alike = without_numbers(name)
            weights[alike] = weights.get(alike, 0) + _whole_size(parameter)
    return weights


def _whole_size(parameter: Any) -> int:
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _bits(dtype: torch.dtype) -> int:
    return (torch.finfo if dtype.is_floating_point or dtype.is_complex else torch.iinfo)(dtype).bits


def loss_scale(stepper: Any) -> float | None:
    """Return the loss scale of an engine in fp16; None if it has none."""
    in_fp16 = getattr(stepper, "fp16_enabled", None) if is_engine(stepper) else None
    scale = getattr(stepper.optimizer, "cur_scale", None) if in_fp16 is not None and in_fp16() else None
    return None if scale is None else float(scale)


def gathered_parameters(stepper: object, numerics: Numerics) -> dict[str, torch.Tensor]:
    """Return the parameters (see `local_parameters`), and put their digest into ``numerics``. Collective over the engine's
    ranks."""
    trained = dict(local_parameters(stepper))
    numerics.parameter_digest = _digest(trained)
    numerics.note = NO_TRUTH
    return trained


def has_left_its_group() -> bool:
    """Return True if the program has destroyed the process group of its ranks, so that nothing can be gathered."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and not torch.distributed.is_initialized()


def effective_configuration(stepper: Any) -> dict[str, Any]:
    """Return the configuration in force, as dotted keys."""
    if is_engine(stepper):
        from dsregress.probe.frameworks import deepspeed_engine

        model_config = getattr(stepper.module, "config", None)
        return deepspeed_engine.effective_configuration(
            stepper, model_config if hasattr(model_config, "to_dict") else _NoConfig()
        )
    return {
        "optimizer": type(stepper).__name__,
        **flatten("optimizer", {name: value for name, value in stepper.defaults.items() if _is_plain(value)}),
    }


def given_configuration(stepper: Any) -> dict[str, Any]:
    """Return the configuration that an engine was given, as dotted keys, without DeepSpeed's defaults; empty for an
    optimizer."""
    given = getattr(getattr(stepper, "_config", None), "_param_dict", None) if is_engine(stepper) else None
    return {key.partition(".")[2]: value for key, value in flatten("given", given or {}).items()}


def is_engine(stepper: object) -> bool:
    """Return True if the stepper is an engine of DeepSpeed's."""
    return hasattr(stepper, "get_global_grad_norm")


def is_same_model(stepper: object, other: object) -> bool:
    """Return True if both are engines whose parameters have the same names."""
    names = parameter_names(stepper)
    return bool(names) and names == parameter_names(other)


def parameter_names(stepper: Any) -> list[str]:
    """Return the names of an engine's parameters; none of an optimizer's."""
    return [name for name, _ in stepper.module.named_parameters()] if is_engine(stepper) else []


def stepped_shapes(stepper: Any) -> list[torch.Size]:
    """Return the shapes of the tensors that an optimizer steps, in its order; none of an engine's."""
    if is_engine(stepper):
        return []
    return [tensor.shape for group in stepper.param_groups for tensor in group["params"]]


class _NoConfig:
    """The configuration of a model without one."""

    def to_dict(self) -> dict[str, object]:
        return {}


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, tuple, list))


def local_parameters(stepper: Any) -> Mapping[str, torch.Tensor]:
    """Return an engine's whole parameters by name, which is collective over its ranks; for an optimizer, this rank's
    parts, numbered."""
    if is_engine(stepper):
        from dsregress.probe.frameworks import deepspeed_engine

        whole: Mapping[str, torch.Tensor] = deepspeed_engine.whole_parameters(stepper.module)
        return whole
    numbered = (parameter for group in stepper.param_groups for parameter in group["params"])
    return {f"{number:06}": _local(parameter) for number, parameter in enumerate(numbered)}


def _local(parameter: Any) -> torch.Tensor:
    """Return this rank's part of a parameter that FSDP sharded, else all of it."""
    local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    values: torch.Tensor = local.detach().cpu()
    return values


def _digest(parameters: Mapping[str, torch.Tensor]) -> str:
    from dsregress.probe.oracles.truth import parameter_digest

    return parameter_digest(parameters)
