"""Attention as the kernel that a GPU would run, instead of the meta device's fallback.

`torch.nn.functional.scaled_dot_product_attention` picks its kernel by device, and on meta it takes the one that writes out
the score matrix. A GPU takes, in torch's own order (`aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`): flash attention
for fp16 and bf16 with a head size up to 256 and no mask; memory-efficient attention with a mask or in fp32; the score matrix
for tensors that are not four-dimensional, as the vision tower of Qwen2-VL has them, and for fewer heads of keys than of
queries where flash attention does not take them. Both kernels return the output and one fp32 number per row (the
log-sum-exp). cuDNN's kernel, which torch prefers on some cards, is not told apart from them.
"""

from __future__ import annotations

import torch

from vgpu.sim import meta_kernels  # noqa: F401 (for torch before 2.5)

aten = torch.ops.aten

#: `check_head_dim_size_flash` of sdp_utils.cpp.
_FLASH_HEAD_SIZE = 256

#: The memory-efficient kernel takes fewer heads of keys than of queries: pytorch#191085, after 2.13.
_TAKES_GROUPS = torch.torch_version.TorchVersion(torch.__version__) >= (2, 14)


def on_gpu(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Return the output of the kernel that a GPU would run; shapes as `scaled_dot_product_attention`."""
    has_groups = not query.shape[-3] == key.shape[-3] == value.shape[-3]
    is_flash = _flash(query, attn_mask) and (not has_groups or enable_gqa)
    if not _fused(query, key, value) or (has_groups and not is_flash and not (_TAKES_GROUPS and enable_gqa)):
        return _scores(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if is_flash:
        # Flash attention wants a head size divisible by 8 and has it padded by its caller.
        padding = -query.shape[-1] % 8
        size = query.shape[-1]
        if padding:
            query, key, value = (torch.nn.functional.pad(t, (0, padding)) for t in (query, key, value))
            scale = scale if scale is not None else size**-0.5
        out = aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        return out[..., :size] if padding else out
    if attn_mask is not None:
        attn_mask = _bias(attn_mask, query, key)
    needs_gradient = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, needs_gradient, dropout_p, is_causal, scale=scale
    )[0]


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
    if not _fused(query, key, value):
        return _scores(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = _bias(attn_mask, query, key)
    return aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, dropout_p, is_causal, attn_mask=attn_mask, scale=scale
    )[0]


def _fused(*tensors: torch.Tensor) -> bool:
    """Return True if a fused kernel takes these tensors (`check_tensor_shapes` of sdp_utils_cpp.h, for a GPU's kernels and
    the CPU's alike)."""
    return all(tensor.dim() == 4 for tensor in tensors)


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


def _flash(query: torch.Tensor, attn_mask: object) -> bool:
    return attn_mask is None and query.dtype in (torch.float16, torch.bfloat16) and query.shape[-1] <= _FLASH_HEAD_SIZE


def _bias(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Return a mask as the addend of the scores (`convert_boolean_attn_mask` and `preprocess_mask` of attention.cpp)."""
    if mask.dtype == torch.bool:
        mask = _added(mask, query)
    return mask.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])


def _added(mask: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    return torch.where(mask, torch.zeros((), dtype=query.dtype, device=mask.device), float("-inf")).to(query.dtype)
