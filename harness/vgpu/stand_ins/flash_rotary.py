"""``flash_attn.layers.rotary``: one kernel writes the rotated tensor, and only cos and sin are kept
(``flash_attn/ops/triton/rotary.py``, ``flash_attn/layers/rotary.py``)."""

from __future__ import annotations

from typing import Any

import torch

from vgpu.device import launching
from vgpu.no_stand_in import NoStandInError

__all__ = ["RotaryEmbedding", "apply_rotary", "apply_rotary_emb", "apply_rotary_emb_func"]
__all__ += ["apply_rotary_emb_kv_", "apply_rotary_emb_qkv_"]

#: A tensor of heads, and the cos and sin by which they are rotated.
_Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def apply_rotary(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    seqlen_offsets: object = 0,
    cu_seqlens: torch.Tensor | None = None,
    max_seqlen: int | None = None,
    interleaved: bool = False,
    inplace: bool = False,
    conjugate: bool = False,
) -> torch.Tensor:
    """Return ``x`` rotated: ``x`` is ``(batch, length, heads, size)``, or ``(tokens, heads, size)`` with ``cu_seqlens``;
    ``cos`` and ``sin`` are ``(positions, rotated size / 2)``."""
    out = x if inplace else torch.empty_like(x)
    rotated = 2 * cos.shape[-1]
    copies = int(not inplace and rotated < x.shape[-1])
    with launching.kernel(out, launches=1 + copies) as compute:
        if compute:
            at = _positions(x, seqlen_offsets, cu_seqlens)
            c, s = cos[at].float().unsqueeze(-2), sin[at].float().unsqueeze(-2)
            if conjugate:
                s = -s
            part = x[..., :rotated].float()
            first, second = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
            pair = (first * c - second * s, first * s + second * c)
            done = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
            rest = x[..., rotated:].clone()
            out.copy_(torch.cat((done.to(x.dtype), rest), -1))
    return out


def _positions(x: torch.Tensor, offsets: Any, bounds: torch.Tensor | None) -> torch.Tensor:
    if bounds is None:
        positions = torch.arange(x.shape[1])
        return positions + offsets if isinstance(offsets, int) else positions + offsets[:, None]
    ends = bounds.tolist()
    starts = [offsets] * (len(ends) - 1) if isinstance(offsets, int) else offsets.tolist()
    return torch.cat([torch.arange(b - a) + start for a, b, start in zip(ends, ends[1:], starts)])


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        offsets: Any,
        bounds: Any,
        options: dict[str, Any],
    ) -> Any:
        out = apply_rotary(x, cos, sin, offsets, bounds, **options)
        ctx.save_for_backward(cos, sin, bounds, offsets if isinstance(offsets, torch.Tensor) else None)
        ctx.offsets, ctx.options = offsets if isinstance(offsets, int) else None, options
        if options["inplace"]:
            ctx.mark_dirty(x)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        cos, sin, bounds, offsets = ctx.saved_tensors
        offsets = ctx.offsets if offsets is None else offsets
        return apply_rotary(gradient, cos, sin, offsets, bounds, **ctx.options, conjugate=True), *(None,) * 5


def apply_rotary_emb(
    x: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    interleaved: bool = False,
    inplace: bool = False,
    seqlen_offsets: object = 0,
    cu_seqlens: torch.Tensor | None = None,
    max_seqlen: int | None = None,
) -> object:
    """Return ``x`` rotated as by `apply_rotary`, with its gradient."""
    options = {"max_seqlen": max_seqlen, "interleaved": interleaved, "inplace": inplace}
    return _Rotary.apply(x, cos, sin, seqlen_offsets, cu_seqlens, options)


apply_rotary_emb_func = apply_rotary_emb


class _RotaryInPlace(torch.autograd.Function):
    """The rotation, in place, of a tensor that holds queries, keys and values; backward rotates its gradient in place."""

    @staticmethod
    def forward(
        ctx: Any,
        packed: torch.Tensor,
        queries: int | None,
        interleaved: bool,
        offsets: object,
        *by: torch.Tensor | None,
    ) -> torch.Tensor:
        _rotate_in_place(packed, queries, interleaved, offsets, by)
        ctx.save_for_backward(*by, offsets if isinstance(offsets, torch.Tensor) else None)
        ctx.offsets, ctx.queries, ctx.interleaved = offsets if isinstance(offsets, int) else None, queries, interleaved
        return packed

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> object:
        *by, offsets = ctx.saved_tensors
        offsets = ctx.offsets if offsets is None else offsets
        _rotate_in_place(gradient, ctx.queries, ctx.interleaved, offsets, by, conjugate=True)
        return gradient, *(None,) * (3 + len(by))


def _rotate_in_place(
    packed: torch.Tensor, queries: int | None, interleaved: bool, offsets: object, by: Any, conjugate: bool = False
) -> None:
    parts = _key_parts(packed, *by) if len(by) == 2 else _query_and_key_parts(packed, queries, *by)
    for part, cos, sin in parts:
        apply_rotary(part, cos, sin, offsets, interleaved=interleaved, inplace=True, conjugate=conjugate)


def _key_parts(kv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> list[_Part]:
    return [(kv[:, :, 0], cos, sin)]


def _query_and_key_parts(
    qkv: torch.Tensor,
    queries: int | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    cos_k: torch.Tensor | None,
    sin_k: torch.Tensor | None,
) -> list[_Part]:
    """Return both as one part, for one kernel, if they share a rotation and the tensor is contiguous."""
    together = cos_k is None and sin_k is None and qkv.is_contiguous()
    if qkv.dim() == 5:
        q, k, both = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, :2]
        both = both.flatten(2, 3) if together else both
    else:
        if queries is None:
            raise AssertionError("num_heads_q is needed if queries, keys and values share a dimension")
        rotated = queries + (qkv.shape[2] - queries) // 2
        q, k, both = qkv[:, :, :queries], qkv[:, :, queries:rotated], qkv[:, :, :rotated]
    if together:
        return [(both, cos, sin)]
    return [(q, cos, sin), (k, cos if cos_k is None else cos_k, sin if sin_k is None else sin_k)]


def _query_heads(num_heads_q: int | None = None) -> int | None:
    return num_heads_q


def apply_rotary_emb_qkv_(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    cos_k: torch.Tensor | None = None,
    sin_k: torch.Tensor | None = None,
    interleaved: bool = False,
    seqlen_offsets: object = 0,
    **heads: int | None,
) -> object:
    """Rotate the queries and keys of ``qkv`` in place and return it, with its gradient: ``(batch, length, 3, heads, size)``,
    or ``(batch, length, heads of all, size)`` with ``num_heads_q``."""
    return _RotaryInPlace.apply(qkv, _query_heads(**heads), interleaved, seqlen_offsets, cos, sin, cos_k, sin_k)


def apply_rotary_emb_kv_(
    kv: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, interleaved: bool = False, seqlen_offsets: object = 0
) -> object:
    """Rotate the keys of ``kv``, ``(batch, length, 2, heads, size)``, in place and return it, with its gradient."""
    return _RotaryInPlace.apply(kv, None, interleaved, seqlen_offsets, cos, sin)


class RotaryEmbedding(torch.nn.Module):
    """The cache of cos and sin; models of transformers derive their own class from it."""

    def __init__(
        self, dim: int, base: float = 10000.0, interleaved: bool = False, scale_base: Any = None, device: Any = None
    ) -> None:
        super().__init__()
        if scale_base is not None:
            raise NoStandInError("flash_attn's RotaryEmbedding has no stand-in for scale_base")
        self.dim, self.base, self.interleaved = dim, float(base), interleaved
        steps = torch.arange(0, dim, 2, device=device, dtype=torch.float32)
        self.register_buffer("inv_freq", 1.0 / (self.base ** (steps / dim)), persistent=False)
        self._seq_len_cached = 0
        self._cos_cached: torch.Tensor | None = None
        self._sin_cached: torch.Tensor | None = None

    def _update_cos_sin_cache(self, seqlen: int, device: object = None, dtype: object = None) -> None:
        cached = self._cos_cached
        if cached is not None and seqlen <= self._seq_len_cached and cached.dtype == dtype:
            return
        self._seq_len_cached = seqlen
        positions = torch.arange(seqlen, device=device, dtype=torch.float32)
        angles = torch.outer(positions, torch.as_tensor(self.inv_freq).to(device))
        self._cos_cached, self._sin_cached = angles.cos().to(dtype), angles.sin().to(dtype)

    def forward(
        self,
        qkv: torch.Tensor,
        kv: torch.Tensor | None = None,
        seqlen_offset: object = 0,
        max_seqlen: int | None = None,
        num_heads_q: int | None = None,
    ) -> object:
        """Rotate ``qkv``, as `apply_rotary_emb_qkv_`, or queries and ``kv``, in place. Return what is given."""
        if max_seqlen is not None:
            self._update_cos_sin_cache(max_seqlen, qkv.device, qkv.dtype)
        elif isinstance(seqlen_offset, int):
            self._update_cos_sin_cache(qkv.shape[1] + seqlen_offset, qkv.device, qkv.dtype)
        cos, sin = self._cos_cached, self._sin_cached
        if cos is None or sin is None:
            raise AssertionError("max_seqlen is needed with offsets that are a tensor")
        if kv is None:
            return apply_rotary_emb_qkv_(
                qkv,
                cos,
                sin,
                interleaved=self.interleaved,
                seqlen_offsets=seqlen_offset,
                num_heads_q=num_heads_q,
            )
        q = apply_rotary_emb(qkv, cos, sin, self.interleaved, inplace=True, seqlen_offsets=seqlen_offset)
        return q, apply_rotary_emb_kv_(kv, cos, sin, self.interleaved, seqlen_offset)
