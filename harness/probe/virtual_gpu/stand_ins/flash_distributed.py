"""``flash_attn.utils.distributed``: collectives along the first dimension, with gradients.

torch's own collectives in the package too (``flash_attn/utils/distributed.py``): the gradient of a gather is a
reduce-scatter, that of a reduce-scatter a gather, and that of an all-reduce itself. The raw ones return (output, handle).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

__all__ = ["all_gather", "all_gather_raw", "all_reduce", "all_reduce_raw", "reduce_scatter", "reduce_scatter_raw"]


def all_gather_raw(input_: torch.Tensor, process_group: Any, async_op: bool = False) -> tuple[torch.Tensor, Any]:
    """``(rows, ...)`` -> ``(ranks * rows, ...)``."""
    output = input_.new_empty((input_.shape[0] * dist.get_world_size(process_group), *input_.shape[1:]))
    return output, dist.all_gather_into_tensor(output, input_.contiguous(), group=process_group, async_op=async_op)


def reduce_scatter_raw(input_: torch.Tensor, process_group: Any, async_op: bool = False) -> tuple[torch.Tensor, Any]:
    """``(ranks * rows, ...)`` -> ``(rows, ...)``, summed."""
    output = input_.new_empty((input_.shape[0] // dist.get_world_size(process_group), *input_.shape[1:]))
    return output, dist.reduce_scatter_tensor(output, input_.contiguous(), group=process_group, async_op=async_op)


def all_reduce_raw(input_: torch.Tensor, process_group: Any, async_op: bool = False) -> tuple[torch.Tensor, Any]:
    """Of the input itself, which is overwritten, as in the package."""
    output = input_.contiguous()
    return output, dist.all_reduce(output, group=process_group, async_op=async_op)


class _AllGather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input_: torch.Tensor, process_group: Any) -> torch.Tensor:
        ctx.process_group = process_group
        return all_gather_raw(input_, process_group)[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return reduce_scatter_raw(gradient, ctx.process_group)[0], None


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input_: torch.Tensor, process_group: Any) -> torch.Tensor:
        ctx.process_group = process_group
        return reduce_scatter_raw(input_, process_group)[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return all_gather_raw(gradient, ctx.process_group)[0], None


class _AllReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input_: torch.Tensor, process_group: Any) -> torch.Tensor:
        ctx.process_group = process_group
        return all_reduce_raw(input_, process_group)[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, None


all_gather = _AllGather.apply
reduce_scatter = _ReduceScatter.apply
all_reduce = _AllReduce.apply
