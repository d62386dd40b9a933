"""``flash_attn``'s attention: the memory of its kernels, allocated as their C++ allocates it.

Sizes and rounding: ``csrc/flash_attn/flash_api.cpp`` of flash-attention 2.8 (``mha_fwd``, ``mha_varlen_fwd``, ``mha_bwd``,
``mha_varlen_bwd``, ``set_params_splitkv``), and ``flash_attn/flash_attn_interface.py`` for the tensors saved for backward.
Shapes: queries ``(batch, length, heads, head size)``, or ``(tokens, heads, head size)`` for sequences of several lengths,
whose bounds are in ``cu_seqlens``.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch

from vgpu.device import launching
from vgpu.no_stand_in import NoStandInError
from vgpu.stand_ins import attention_by_torch
from vgpu.stand_ins.attention_by_torch import Rule

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
]


@dataclasses.dataclass(frozen=True)
class _Bounds:
    """The bounds of concatenated sequences. ``queries`` and ``keys`` are the two ``cu_seqlens``."""

    queries: torch.Tensor
    keys: torch.Tensor
    longest_query: int
    longest_key: int

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return self.queries.numel() - 1


class _Attention(torch.autograd.Function):
    """Attention with gradients. ``packed`` is the number of queries, keys and values that come as one tensor; its gradient
    is one tensor too."""

    @staticmethod
    def forward(
        ctx: Any, packed: int, rule: Rule, bounds: _Bounds | None, probabilities: bool, grad: bool, *given: Any
    ) -> Any:
        q, k, v = _unpacked(packed, given)
        size = q.shape[-1]
        padding = -size % 8
        if padding:
            q, k, v = (torch.nn.functional.pad(tensor, [0, padding]) for tensor in (q, k, v))
        out, lse, dropped, rng_state = _forward(q, k, v, rule, bounds, probabilities)
        if grad and any(tensor.requires_grad for tensor in given):
            several = () if bounds is None else (bounds.queries, bounds.keys)
            ctx.save_for_backward(q, k, v, out, lse, rng_state, *several)
            ctx.packed, ctx.rule = packed, rule
            ctx.longest = None if bounds is None else (bounds.longest_query, bounds.longest_key)
        if padding:
            out = out[..., :size]
        if not probabilities:
            return out
        ctx.mark_non_differentiable(lse, dropped)
        return out, lse, dropped

    @staticmethod
    def backward(ctx: Any, dout: torch.Tensor, *_: Any) -> Any:
        q, k, v, _, _, rng_state, *several = ctx.saved_tensors
        bounds = _Bounds(*several, *ctx.longest) if several else None
        size = dout.shape[-1]
        if size % 8:
            dout = torch.nn.functional.pad(dout, [0, -size % 8])
        if ctx.packed == 3:
            gradients: tuple[torch.Tensor, ...] = (q.new_empty((*q.shape[:-2], 3, *q.shape[-2:])),)
        elif ctx.packed == 2:
            gradients = (torch.empty_like(q), k.new_empty((*k.shape[:-2], 2, *k.shape[-2:])))
        else:
            gradients = (torch.empty_like(q), torch.empty_like(k), torch.empty_like(v))
        _backward(dout, (q, k, v), rng_state, ctx.rule, bounds, _unpacked(ctx.packed, gradients))
        return (None,) * 5 + tuple(gradient[..., :size] for gradient in gradients)


def _unpacked(packed: int, given: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if packed == 3:
        q, k, v = given[0].detach().unbind(-3)
    elif packed == 2:
        q, (k, v) = given[0], given[1].detach().unbind(-3)
    else:
        q, k, v = given
    return q, k, v


def _forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, bounds: _Bounds | None, probabilities: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    _check_inputs(q, k, v)
    batch, longest_q, longest_k = _lengths(q, k, bounds)
    heads, size = q.shape[-2:]
    q, k, v = (tensor if tensor.stride(-1) == 1 else tensor.contiguous() for tensor in (q, k, v))
    out = torch.empty_like(q)
    lse = _fp32(q, *((heads, q.shape[0]) if bounds is not None else (batch, heads, longest_q)))
    dropped = q.new_empty(
        (batch, heads, _up(longest_q, 128), _up(longest_k, 128)) if probabilities and rule.dropout else (0,)
    )
    scratch: tuple[torch.Tensor, ...] = ()
    if bounds is None and not rule.dropout:
        splits = _splits(batch * heads * -(-longest_q // 64), longest_k, size)
        if splits > 1:
            scratch = (
                _fp32(q, splits, batch, heads, longest_q),
                _fp32(q, splits, batch, heads, longest_q, _rounded_size(size)),
            )
    rng_state = torch.empty((2,), dtype=torch.int64, device=q.device)
    flops = _matrix_products(q, k, bounds) * 2
    with launching.kernel(out, lse, rng_state, launches=2 if scratch else 1, flops=flops) as compute:
        if compute:
            rng_state.copy_(torch.randint(1 << 62, (2,)) if rule.dropout else torch.zeros(2, dtype=torch.int64))
            attention_by_torch.forward((q, k, v), out, lse, rule, _cuts(bounds), int(rng_state[0]))
    return out, lse, dropped, rng_state


def _backward(
    dout: torch.Tensor,
    inputs: attention_by_torch.Inputs,
    rng_state: torch.Tensor,
    rule: Rule,
    bounds: _Bounds | None,
    gradients: attention_by_torch.Inputs,
) -> None:
    q, k, v = inputs
    batch, longest_q, _ = _lengths(q, k, bounds)
    heads, size = q.shape[-2:]
    if dout.stride(-1) != 1:
        dout = dout.contiguous()
    rows = (batch, _up(longest_q, 128)) if bounds is None else (1, q.shape[0] + 128 * batch)
    scratch = [_fp32(q, rows[0], heads, rows[1])]
    if rule.deterministic:
        copies = -(-launching.card().multiprocessors // (batch * heads))
        scratch.append(torch.zeros(copies, *rows, heads, _rounded_size(size), dtype=torch.float32, device=q.device))
    else:
        scratch.append(_fp32(q, *rows, heads, _rounded_size(size)))
    grouped = k.shape[-2] != heads
    if grouped:
        scratch += [k.new_empty((*k.shape[:-2], heads, size)) for _ in range(2)]
    # Three kernels (dO * O, the products, dQ's conversion), and the sums over the heads of a group.
    flops = _matrix_products(q, k, bounds) * 5
    with launching.kernel(*gradients, launches=5 if grouped else 3, flops=flops) as compute:
        if compute:
            seed = int(rng_state[0])
            attention_by_torch.backward(dout, (q, k, v), gradients, rule, _cuts(bounds), seed)


def _check_inputs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
    """Raise RuntimeError for inputs that the kernels refuse, with their messages."""
    if q.dtype not in (torch.float16, torch.bfloat16):
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if k.dtype != q.dtype or v.dtype != q.dtype:
        raise RuntimeError("query and key must have the same dtype")
    if q.shape[-1] > 256:
        raise RuntimeError("FlashAttention forward only supports head dimension at most 256")
    if q.shape[-2] % k.shape[-2]:
        raise RuntimeError("Number of heads in key/value must divide number of heads in query")


def _lengths(q: torch.Tensor, k: torch.Tensor, bounds: _Bounds | None) -> tuple[int, int, int]:
    if bounds is None:
        return q.shape[0], q.shape[1], k.shape[1]
    return bounds.batch, bounds.longest_query, bounds.longest_key


def _matrix_products(q: torch.Tensor, k: torch.Tensor, bounds: _Bounds | None) -> int:
    """Return the FLOPs of one product of queries and keys, as torch's counter of FLOPs has them: masked scores count, and
    sequences of unknown lengths count as the longest."""
    batch, longest_q, longest_k = _lengths(q, k, bounds)
    pairs = batch * longest_q * longest_k
    if bounds is not None:
        queries, keys = launching.tensor_values(bounds.queries), launching.tensor_values(bounds.keys)
        if queries is not None and keys is not None:
            pairs = int((queries.diff().long() * keys.diff().long()).sum())
    return int(2 * pairs * q.shape[-2] * q.shape[-1])


def _cuts(bounds: _Bounds | None) -> list[tuple[int, int, int, int]] | None:
    """Return (first query, end, first key, end) of each sequence; None for a plain batch."""
    if bounds is None:
        return None
    queries, keys = bounds.queries.tolist(), bounds.keys.tolist()
    return list(zip(queries, queries[1:], keys, keys[1:]))


def _fp32(like: torch.Tensor, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _rounded_size(size: int) -> int:
    return _up(size, 32 if size <= 128 else 64)


def _splits(blocks: int, keys: int, size: int) -> int:
    """Return the number of parts in which the keys are processed if there are too few queries to fill the card
    (``num_splits_heuristic``): the fewest whose last wave is within 15 % of the best filled."""
    processors = launching.card().multiprocessors * 2
    if blocks >= 0.8 * processors:
        return 1
    key_blocks = -(-keys // (256 if size <= 64 else 128 if size <= 128 else 64))

    def filled(splits: int) -> float:
        if splits > 1 and -(-key_blocks // splits) == -(-key_blocks // (splits - 1)):
            return 0.0
        waves = blocks * splits / processors
        return waves / math.ceil(waves)

    filling = [filled(splits) for splits in range(1, min(128, processors, key_blocks) + 1)]
    return next((n for n, value in enumerate(filling, 1) if value and value >= 0.85 * max(filling)), 1)


def _rule(
    size: int,
    dropout_p: float,
    softmax_scale: float | None,
    causal: bool,
    window_size: tuple[int, int],
    softcap: float,
    alibi_slopes: torch.Tensor | None,
    deterministic: bool,
) -> Rule:
    scale = size**-0.5 if softmax_scale is None else softmax_scale
    window = (int(window_size[0]), int(window_size[1]))
    return Rule(dropout_p, scale, bool(causal), window, softcap or 0.0, alibi_slopes, bool(deterministic))


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> object:
    """Return the attention of ``q``, ``k`` and ``v``, each ``(batch, length, heads, head size)``."""
    rule = _rule(q.shape[-1], dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    return _Attention.apply(1, rule, None, return_attn_probs, torch.is_grad_enabled(), q, k, v)


def flash_attn_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> object:
    """Return the attention of ``q`` and ``kv``, which is ``(batch, length, 2, heads, head size)``."""
    rule = _rule(q.shape[-1], dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    return _Attention.apply(2, rule, None, return_attn_probs, torch.is_grad_enabled(), q, kv)


def flash_attn_qkvpacked_func(
    qkv: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> object:
    """Return the attention of ``qkv``, which is ``(batch, length, 3, heads, head size)``."""
    rule = _rule(qkv.shape[-1], dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    return _Attention.apply(3, rule, None, return_attn_probs, torch.is_grad_enabled(), qkv)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> object:
    """Return the attention within concatenated sequences: ``q``, ``k`` and ``v`` are each ``(tokens, heads, head size)``.
    Raise NoStandInError for ``block_table``."""
    if block_table is not None:
        raise NoStandInError("flash_attn_varlen_func has no stand-in for block_table, a paged cache of keys")
    rule = _rule(q.shape[-1], dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    bounds = _Bounds(cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    return _Attention.apply(1, rule, bounds, return_attn_probs, torch.is_grad_enabled(), q, k, v)


def flash_attn_varlen_kvpacked_func(
    q: torch.Tensor,
    kv: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> object:
    """Return the attention within concatenated sequences: ``kv`` is ``(tokens, 2, heads, head size)``."""
    rule = _rule(q.shape[-1], dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    bounds = _Bounds(cu_seqlens_q, cu_seqlens_k, int(max_seqlen_q), int(max_seqlen_k))
    return _Attention.apply(2, rule, bounds, return_attn_probs, torch.is_grad_enabled(), q, kv)


def flash_attn_varlen_qkvpacked_func(
    qkv: torch.Tensor,
    cu_seqlens: torch.Tensor,
    max_seqlen: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> object:
    """Return the attention within concatenated sequences: ``qkv`` is ``(tokens, 3, heads, head size)``."""
    rule = _rule(qkv.shape[-1], dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic)
    bounds = _Bounds(cu_seqlens, cu_seqlens, int(max_seqlen), int(max_seqlen))
    return _Attention.apply(3, rule, bounds, return_attn_probs, torch.is_grad_enabled(), qkv)


def flash_attn_with_kvcache(*_: object, **__: object) -> object:
    """Raise NoStandInError; transformers imports this with the others."""
    raise NoStandInError("flash_attn_with_kvcache has no stand-in", "generate with attn_implementation='sdpa' here")
