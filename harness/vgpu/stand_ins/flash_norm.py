"""``flash_attn.ops.triton.layer_norm``: layer norm and RMS norm, with the sum of the residual stream before them.

Sizes: ``flash_attn/ops/triton/layer_norm.py`` of flash-attention 2.8. Kept for backward are the sum, or the input if nothing
is added, and an fp32 number per row (two for a layer norm); backward makes an fp32 row of the weight's gradient, and of the
bias's, for each of eight blocks per multiprocessor.
"""

from __future__ import annotations

from typing import Any

import torch

from vgpu.device import launching

__all__ = ["RMSNorm", "layer_norm_fn", "rms_norm_fn"]

_BLOCKS_PER_MULTIPROCESSOR = 8


class _Norm(torch.autograd.Function):
    """The norm of ``(..., size)`` with a ``(size,)`` weight; with ``prenorm`` it also returns the sum."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        residual: torch.Tensor | None,
        eps: float,
        prenorm: bool,
        residual_in_fp32: bool,
        is_rms_norm: bool,
    ) -> Any:
        shape, dtype = x.shape, x.dtype
        x = x.reshape(-1, shape[-1]).contiguous()
        kind = residual.dtype if residual is not None else torch.float32 if residual_in_fp32 else dtype
        out = torch.empty_like(x)
        added = torch.empty_like(x, dtype=kind) if residual is not None or kind != dtype else x
        mean = None if is_rms_norm else x.new_empty(x.shape[0], dtype=torch.float32)
        scale = x.new_empty(x.shape[0], dtype=torch.float32)
        with launching.kernel(
            *(t for t in (out, None if added is x else added, mean, scale) if t is not None)
        ) as compute:
            if compute:
                total = x.float() if residual is None else x.float() + residual.reshape(x.shape).float()
                centered = total
                if mean is not None:
                    mean.copy_(total.mean(-1))
                    centered = total - mean[:, None]
                scale.copy_((centered.pow(2).mean(-1) + eps).rsqrt())
                normed = centered * scale[:, None] * weight.float()
                out.copy_(normed if bias is None else normed + bias.float())
                if added is not x:
                    added.copy_(total)
        ctx.save_for_backward(added, weight, bias, mean, scale)
        ctx.dtype, ctx.prenorm, ctx.has_residual = dtype, prenorm, residual is not None
        return (out.view(shape), added.view(shape)) if prenorm else out.view(shape)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        added, weight, bias, mean, scale = ctx.saved_tensors
        shape = gradients[0].shape
        dy, *of_sum = (gradient.reshape(added.shape).contiguous() for gradient in gradients)
        dx = torch.empty_like(added, dtype=ctx.dtype)
        d_residual = torch.empty_like(added) if ctx.has_residual and dx.dtype != added.dtype else None
        rows = launching.card().multiprocessors * _BLOCKS_PER_MULTIPROCESSOR
        d_weight = torch.empty((rows, shape[-1]), dtype=torch.float32, device=weight.device)
        d_bias = None if bias is None else torch.empty_like(d_weight)
        with launching.kernel(*(t for t in (dx, d_residual, d_weight, d_bias) if t is not None)) as compute:
            if compute:
                x, g = added.float(), dy.float()
                normed = (x if mean is None else x - mean[:, None]) * scale[:, None]
                weighted = g * weight.float()
                change = normed * (normed * weighted).mean(-1, keepdim=True)
                if mean is not None:
                    change = change + weighted.mean(-1, keepdim=True)
                total = (weighted - change) * scale[:, None] + (of_sum[0].float() if of_sum else 0)
                dx.copy_(total)
                d_weight.zero_()[0] = (g * normed).sum(0)
                if d_residual is not None:
                    d_residual.copy_(total)
                if d_bias is not None:
                    d_bias.zero_()[0] = g.sum(0)
        d_residual = (dx if d_residual is None else d_residual).view(shape) if ctx.has_residual else None
        return (
            dx.view(shape),
            d_weight.sum(0).to(weight.dtype),
            None if d_bias is None else d_bias.sum(0).to(bias.dtype),
            d_residual,
            *(None,) * 4,
        )


def layer_norm_fn(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None = None,
    x1: object = None,
    weight1: object = None,
    bias1: object = None,
    eps: float = 1e-6,
    dropout_p: float = 0.0,
    rowscale: object = None,
    prenorm: bool = False,
    residual_in_fp32: bool = False,
    is_rms_norm: bool = False,
    return_dropout_mask: bool = False,
    out: object = None,
    residual_out: object = None,
    **more: object,
) -> object:
    """Return the layer norm, or RMS norm, of ``x`` plus ``residual``; with ``prenorm`` also the sum. Raise
    NotImplementedError for dropout, a second input and given outputs."""
    refused = (x1, weight1, bias1, rowscale, out, residual_out, *more.values())
    if dropout_p or return_dropout_mask or any(value is not None for value in refused):
        raise NotImplementedError(
            "flash_attn's layer_norm_fn has no stand-in for dropout, a second input and given outputs"
        )
    return _Norm.apply(x, weight, bias, residual, eps, prenorm, residual_in_fp32, is_rms_norm)


def rms_norm_fn(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, residual: Any = None, **options: Any
) -> object:
    """Return the RMS norm, as `layer_norm_fn`."""
    return layer_norm_fn(x, weight, bias, residual, **options, is_rms_norm=True)


class RMSNorm(torch.nn.Module):
    def __init__(
        self, hidden_size: int, eps: float = 1e-5, dropout_p: float = 0.0, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.eps, self.dropout_p = eps, dropout_p
        self.weight = torch.nn.Parameter(torch.ones(hidden_size, device=device, dtype=dtype))
        self.register_parameter("bias", None)

    def forward(
        self, x: torch.Tensor, residual: object = None, prenorm: bool = False, residual_in_fp32: bool = False
    ) -> Any:
        return rms_norm_fn(
            x,
            self.weight,
            None,
            residual,
            eps=self.eps,
            dropout_p=self.dropout_p if self.training else 0.0,
            prenorm=prenorm,
            residual_in_fp32=residual_in_fp32,
        )
