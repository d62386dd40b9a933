"""Results and settings of a DeepSpeed engine: losses, whole parameters, the effective configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from dsregress.probe.workloads.flatten import flatten


def gathered(parameter: object, *, wanted: bool = True, modifier_rank: int | None = None) -> Any:
    """Make a sharded parameter whole within the block."""
    if not (wanted and hasattr(parameter, "ds_id")):
        return contextlib.nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters([parameter], modifier_rank=modifier_rank)


def mean_loss(losses: Sequence[Any], micro_batches: int) -> float:
    """Return the mean over the micro-batches and ranks of a step, which may have several losses each. Collective."""
    import torch
    import torch.distributed as dist

    mean = torch.stack([loss.float() for loss in losses]).sum() / micro_batches
    dist.all_reduce(mean)
    return float(mean) / dist.get_world_size()


def whole_parameters(model: Any) -> dict[str, Any]:
    """Return every parameter by name, on the CPU; in fp32 if the framework keeps it so and finds it again. Collective."""
    from deepspeed.utils import safe_get_full_fp32_param

    whole: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        values = safe_get_full_fp32_param(parameter) if parameter.requires_grad else None
        if values is not None and not _belongs_to(values, parameter):
            values = None
        with gathered(parameter, wanted=values is None):
            # If the framework keeps no fp32 weights, only the parameter itself exists, in its own dtype.
            values = parameter if values is None else values
            whole[name] = values.detach().cpu().reshape(getattr(parameter, "ds_shape", parameter.shape)).clone()
    return whole


def _belongs_to(weights: Any, parameter: Any) -> bool:
    """Return True if a whole parameter is the rounding of these fp32 weights, as it must be after each step.

    With ``round_robin_gradients`` DeepSpeed 0.15.0 to 0.19.8 store the fp32 weights in another order than the one in
    which ``_link_all_hp_params`` looks for them, so ``safe_get_full_fp32_param`` returns those of other parameters. The
    weights that the model computes with are those that were trained, so they count then.
    """
    import torch

    return hasattr(parameter, "ds_id") or torch.equal(weights.to(parameter.dtype), parameter.detach())


def effective_configuration(engine: Any, model_config: Any) -> dict[str, Any]:
    """Return the configuration in force after ``deepspeed.initialize``, as dotted keys."""
    return {
        **flatten("deepspeed", vars(engine._config)),
        **flatten("model", model_config.to_dict()),
        "engine.optimizer": type(engine.optimizer).__name__,
        "engine.model_dtype": str(next(engine.module.parameters()).dtype),
        "model.attention": str(getattr(model_config, "_attn_implementation", None)),
    }
