"""Attention as the kernel that a GPU would run, instead of the meta device's fallback.

`torch.nn.functional.scaled_dot_product_attention` picks its kernel by device, and on meta it takes the one that writes out
the score matrix. `vgpu.sim.attention_kernels` picks the GPU's. Flash attention and the memory-efficient kernel return the
output and one fp32 number per row (the log-sum-exp).
"""

from __future__ import annotations

import torch

from vgpu.sim import meta_kernels  # noqa: F401 (for torch before 2.5)
from vgpu.sim.attention_kernels import Call, Choice, kernel_on_gpu

aten = torch.ops.aten

#: Masks of the memory-efficient kernel have strides of multiples of this (`preprocess_mask` of
#: ``aten/src/ATen/native/transformers/attention.cpp``).
_MASK_ALIGNMENT = 8


def on_gpu(call: Call, capability: tuple[int, int]) -> tuple[torch.Tensor, Choice]:
    """Return the output of the kernel that a GPU of this compute capability would run, and which kernel that is. Raise
    RuntimeError, as torch does, if the program turned off each that could."""
    choice = kernel_on_gpu(call, capability)
    query, key, value, mask, scale = call.query, call.key, call.value, call.mask, call.scale
    if choice.kernel == "math":
        return _scores(query, key, value, mask, call.dropout, call.is_causal, scale, call.enable_gqa), choice
    if choice.kernel == "flash":
        # Flash attention wants a head size divisible by 8 and has it padded by its caller.
        padding = -query.shape[-1] % 8
        size = query.shape[-1]
        if padding:
            query, key, value = (torch.nn.functional.pad(t, (0, padding)) for t in (query, key, value))
            scale = scale if scale is not None else size**-0.5
        out = aten._scaled_dot_product_flash_attention(
            query, key, value, call.dropout, call.is_causal, False, scale=scale
        )[0]
        return out[..., :size] if padding else out, choice
    if mask is not None:
        mask = _bias(mask, query, key)
    out = aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, call.needs_gradient, call.dropout, call.is_causal, scale=scale
    )[0]
    return out, choice


def on_cpu(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Return the output of the kernel that the CPU would run; ``cpu`` mode is compared with it to the byte."""
    if any(tensor.dim() != 4 for tensor in (query, key, value)):  # `check_tensor_shapes` of sdp_utils_cpp.h
        return _scores(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = _bias(attn_mask, query, key)
    return aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]


def _scores(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> torch.Tensor:
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = _added(attn_mask, query)
    grouped = {"enable_gqa": True} if enable_gqa else {}  # which torch has from 2.5 on
    return aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **grouped
    )[0]


def _bias(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Return a mask as the addend of the scores (`convert_boolean_attn_mask` and `preprocess_mask` of attention.cpp)."""
    if mask.dtype == torch.bool:
        mask = _added(mask, query)
    *outer, last = mask.stride()
    if last != 1 or any(stride % _MASK_ALIGNMENT for stride in outer):
        width = mask.shape[-1]
        mask = torch.nn.functional.pad(mask, (0, _MASK_ALIGNMENT - width % _MASK_ALIGNMENT))[..., :width]
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _added(mask: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, torch.zeros((), dtype=query.dtype, device=mask.device), float("-inf")).to(query.dtype)
