"""What a DeepSpeed engine computed and what is in force: losses, whole parameters, the effective configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from harness.probe.workloads.flatten import flatten


def gathered(parameter: Any, *, wanted: bool = True, modifier_rank: int | None = None) -> Any:
    """The parameter is whole inside, where it is sharded."""
    if not (wanted and hasattr(parameter, "ds_id")):
        return contextlib.nullcontext()
    import deepspeed

    return deepspeed.zero.GatheredParameters([parameter], modifier_rank=modifier_rank)


def mean_loss(losses: Sequence[Any], micro_batches: int) -> float:
    """Over the micro-batches and ranks of a step, which may have several losses each. A collective operation."""
    import torch
    import torch.distributed as dist

    mean = torch.stack([loss.float() for loss in losses]).sum() / micro_batches
    dist.all_reduce(mean)
    return float(mean) / dist.get_world_size()


def whole_parameters(model: Any) -> dict[str, Any]:
    """Every parameter by name, on the CPU; fp32 where the framework keeps it so and finds it again. A collective
    operation."""
    from deepspeed.utils import safe_get_full_fp32_param

    whole: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        values = safe_get_full_fp32_param(parameter) if parameter.requires_grad else None
        if values is not None and not _belongs_to(values, parameter):
            values = None
        with gathered(parameter, wanted=values is None):
            # Where the framework keeps no fp32 weights, the parameter itself, in its own dtype, is all there is.
            values = parameter if values is None else values
            whole[name] = values.detach().cpu().reshape(getattr(parameter, "ds_shape", parameter.shape)).clone()
    return whole


def halve_gradients(model: Any, parts: str) -> None:
    """Of a step, as a user clips them by a rule of their own; ``parts``: whole ("full"), or each rank its share ("local").
    A collective operation."""
    from deepspeed import utils

    utils.safe_set_full_grad  # noqa: B018  (which came with the local one)
    read, write = getattr(utils, f"safe_get_{parts}_grad"), getattr(utils, f"safe_set_{parts}_grad")
    for parameter in model.parameters():
        if parameter.requires_grad and (gradient := read(parameter)) is not None:
            write(parameter, gradient / 2)


def _belongs_to(weights: Any, parameter: Any) -> bool:
    """Whether these are the fp32 weights that a whole parameter is the rounding of, as after each step it must be.

    With ``round_robin_gradients`` DeepSpeed 0.15.0 to 0.19.8 lay the fp32 weights in another order than
    ``_link_all_hp_params`` looks for them in, so ``safe_get_full_fp32_param`` gives those of other parameters. What the
    model computes with is what was trained, so it is that which counts then."""
    import torch

    return hasattr(parameter, "ds_id") or torch.equal(weights.to(parameter.dtype), parameter.detach())


def configuration(engine: Any, model_config: Any) -> dict[str, Any]:
    """What is in force after ``deepspeed.initialize``, as dotted keys."""
    return {
        **flatten("deepspeed", vars(engine._config)),
        **flatten("model", model_config.to_dict()),
        "engine.optimizer": type(engine.optimizer).__name__,
        "engine.model_dtype": str(next(engine.module.parameters()).dtype),
        "model.attention": str(getattr(model_config, "_attn_implementation", None)),
    }
