"""``SyncBatchNorm`` on the virtual card: its five kernels, which torch has only for GPUs.

As ``aten/src/ATen/native/cuda/Normalization.cu``: statistics are fp32, one per channel, whatever the input's dtype; each
kernel allocates what it returns. On CPU ranks torch computes the same.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from vgpu.replacing import Patches, attribute

_Tensors = tuple[torch.Tensor, ...]

#: A library must outlive the kernels that it registers.
_LIBRARIES = {device: torch.library.Library("aten", "IMPL", device) for device in ("CPU", "Meta")}


def _axes(x: torch.Tensor) -> list[int]:
    return [dim for dim in range(x.dim()) if dim != 1]


def _by_channel(value: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return value.float().view(1, -1, *(1,) * (x.dim() - 2))


def batch_norm_stats(x: torch.Tensor, eps: float) -> _Tensors:
    """Return the mean and the inverse standard deviation of each channel of ``x``, in fp32."""
    variance, mean = torch.var_mean(x.float(), _axes(x), correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(
    x: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    momentum: float,
    eps: float,
    counts: torch.Tensor,
) -> _Tensors:
    """Combine the statistics of all ranks: ``mean`` and ``invstd`` of shape (ranks, channels), ``counts`` of rows of shape
    (ranks,). Update the running statistics in place; return mean and inverse standard deviation over all rows."""
    share = counts.float()[:, None]
    rows = share.sum()
    whole = (mean * share).sum(0) / rows
    variance = ((invstd.pow(-2) - eps + (mean - whole).square()) * share).sum(0) / rows
    if running_mean is not None:
        running_mean.lerp_(whole.to(running_mean.dtype), momentum)
    if running_var is not None:
        running_var.lerp_((variance * rows / (rows - 1)).to(running_var.dtype), momentum)
    return whole, (variance + eps).rsqrt()


def batch_norm_elemt(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    eps: float,
) -> torch.Tensor:
    """Return ``x`` normalized by channel, in the dtype of ``x``."""
    out = (x.float() - _by_channel(mean, x)) * _by_channel(invstd, x)
    if weight is not None:
        out = out * _by_channel(weight, x)
    if bias is not None:
        out = out + _by_channel(bias, x)
    return out.to(x.dtype)


def batch_norm_backward_reduce(
    gradient: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: torch.Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[torch.Tensor | None, ...]:
    """Return the sums by channel that the gradients need: of the gradient, of its product with the centered input, and the
    gradients of weight and bias; None for each that is not wanted."""
    dy = gradient.float()
    total = dy.sum(_axes(x))
    moment = (dy * (x.float() - _by_channel(mean, x))).sum(_axes(x))
    dtype = torch.float32 if weight is None else weight.dtype
    return (
        total if input_g else None,
        moment if input_g else None,
        (moment * invstd).to(dtype) if weight_g else None,
        total.to(dtype).clone() if bias_g else None,
    )


def batch_norm_backward_elemt(
    gradient: torch.Tensor,
    x: torch.Tensor,
    mean: torch.Tensor,
    invstd: torch.Tensor,
    weight: torch.Tensor | None,
    total: torch.Tensor,
    moment: torch.Tensor,
    counts: torch.Tensor,
) -> torch.Tensor:
    """Return the gradient of the input, given the sums of all ranks and the row ``counts``."""
    rows = counts.sum()
    centered = x.float() - _by_channel(mean, x)
    shift = _by_channel(total, x) / rows + centered * _by_channel(invstd.square() * moment, x) / rows
    out = (gradient.float() - shift) * _by_channel(invstd, x)
    return (out if weight is None else out * _by_channel(weight, x)).to(gradient.dtype)


# -- shapes ----------------------------------------------------------------------------------------------------------


def _channels(x: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return x.new_empty(x.shape[1], dtype=dtype)


def _backward_shapes(
    gradient: torch.Tensor, x: torch.Tensor, mean: object, invstd: object, weight: Any, *wanted: bool
) -> object:
    dtypes = (torch.float32, torch.float32, *(torch.float32 if weight is None else weight.dtype,) * 2)
    asked = (wanted[0], *wanted)
    return tuple(_channels(x, dtype) if one else None for dtype, one in zip(dtypes, asked))


_SHAPES = {
    batch_norm_stats: lambda x, eps: (_channels(x), _channels(x)),
    batch_norm_gather_stats_with_counts: lambda x, *_: (_channels(x), _channels(x)),
    batch_norm_elemt: lambda x, *_: torch.empty_like(x),
    batch_norm_backward_reduce: _backward_shapes,
    batch_norm_backward_elemt: lambda gradient, *_: torch.empty_like(gradient),
}

for _computes, _shapes in _SHAPES.items():
    _LIBRARIES["CPU"].impl(_computes.__name__, _computes)
    _LIBRARIES["Meta"].impl(_computes.__name__, _shapes)


# -- the module ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def allowed(target: str) -> Iterator[None]:
    """Make the module accept inputs on ``target`` as it accepts a GPU's, within the block. In sim no rank's input is empty,
    so the module need not drop empty ones."""
    forward = torch.nn.SyncBatchNorm.forward

    @functools.wraps(forward)
    def taking(module: object, x: torch.Tensor) -> torch.Tensor:
        with contextlib.ExitStack() as stack:  # a step that is profiled counts what is called here
            stack.enter_context(attribute(torch._C, "_get_privateuse1_backend_name", lambda: x.device.type))
            if target == "meta":
                stack.enter_context(attribute(torch.cuda, "is_current_stream_capturing", lambda: True))
            return forward(module, x)

    with Patches("SyncBatchNorm accepts the card's inputs") as patches:
        patches.has(torch._C, "_get_privateuse1_backend_name")
        patches.replace(torch.nn.SyncBatchNorm, "forward", taking)
        patches.replace(torch.nn.parallel.DistributedDataParallel, "_passing_sync_batchnorm_handle", lambda *_: None)
        yield
