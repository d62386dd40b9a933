"""``flash_attn.utils.distributed``: collectives along the first dimension, with gradients.

torch's own collectives in the package too (``flash_attn/utils/distributed.py``): the gradient of a gather is a
reduce-scatter, that of a reduce-scatter a gather, and that of an all-reduce itself. The raw ones return (output, handle).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["all_gather", "all_gather_raw", "all_reduce", "all_reduce_raw", "reduce_scatter", "reduce_scatter_raw"]


def all_gather_raw(input_: torch.Tensor, process_group: object, async_op: bool = False) -> tuple[torch.Tensor, object]:
    """Gather ``(rows, ...)`` into ``(ranks * rows, ...)``."""
    output = input_.new_empty((input_.shape[0] * dist.get_world_size(process_group), *input_.shape[1:]))
    return output, dist.all_gather_into_tensor(output, input_.contiguous(), group=process_group, async_op=async_op)


def reduce_scatter_raw(
    input_: torch.Tensor, process_group: object, async_op: bool = False
) -> tuple[torch.Tensor, object]:
    """Sum ``(ranks * rows, ...)`` into ``(rows, ...)``."""
    output = input_.new_empty((input_.shape[0] // dist.get_world_size(process_group), *input_.shape[1:]))
    return output, dist.reduce_scatter_tensor(output, input_.contiguous(), group=process_group, async_op=async_op)


def all_reduce_raw(input_: torch.Tensor, process_group: object, async_op: bool = False) -> tuple[torch.Tensor, object]:
    """Sum the input over the ranks in place, as in the package; a copy if it is not contiguous."""
    output = input_.contiguous()
    return output, dist.all_reduce(output, group=process_group, async_op=async_op)


def all_gather(input_: torch.Tensor, process_group: object) -> object:
    """Gather as `all_gather_raw`; the gradient is reduced and scattered."""
    return _Collective.apply(input_, process_group, all_gather_raw, reduce_scatter_raw)


def reduce_scatter(input_: torch.Tensor, process_group: object) -> object:
    """Reduce and scatter as `reduce_scatter_raw`; the gradient is gathered."""
    return _Collective.apply(input_, process_group, reduce_scatter_raw, all_gather_raw)


def all_reduce(input_: torch.Tensor, process_group: object) -> Any:
    """Sum as `all_reduce_raw`; the gradient is passed through."""
    return _Collective.apply(input_, process_group, all_reduce_raw, _unchanged)


class _Collective(torch.autograd.Function):
    """A raw collective, whose gradient is another one's result."""

    @staticmethod
    def forward(ctx: Any, input_: torch.Tensor, process_group: Any, run: Callable[..., Any], back: Any) -> Any:
        ctx.process_group, ctx.back = process_group, back
        return run(input_, process_group)[0]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return ctx.back(gradient, ctx.process_group)[0], None, None, None


def _unchanged(gradient: torch.Tensor, process_group: object) -> tuple[torch.Tensor, object]:
    return gradient, None
