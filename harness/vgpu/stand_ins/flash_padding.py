"""``flash_attn.bert_padding``: conversion between padded batches and concatenated sequences.

These are torch operators in the package too; the memory that they hold follows from gather, scatter and index_put
(``flash_attn/bert_padding.py``: each saves only the indices).
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from vgpu.stand_ins import flash_release

__all__ = ["index_first_axis", "index_put_first_axis", "pad_input", "unpad_input"]

with contextlib.suppress(ImportError):  # the package requires einops, and programs import its functions from here
    from einops import rearrange, repeat

    __all__ += ["rearrange", "repeat"]


class _Take(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(indices)
        ctx.rows = values.shape[0]
        flat = values.reshape(values.shape[0], -1)
        return torch.gather(flat, 0, indices[:, None].expand(-1, flat.shape[1])).reshape(-1, *values.shape[1:])

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (indices,) = ctx.saved_tensors
        flat = gradient.reshape(gradient.shape[0], -1)
        out = flat.new_zeros((ctx.rows, flat.shape[1]))
        out.scatter_(0, indices[:, None].expand(-1, flat.shape[1]), flat)
        return out.reshape(ctx.rows, *gradient.shape[1:]), None


class _Put(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, indices: torch.Tensor, rows: int) -> torch.Tensor:
        ctx.save_for_backward(indices)
        out = values.new_zeros((rows, *values.shape[1:]))
        out[indices] = values
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        (indices,) = ctx.saved_tensors
        return gradient[indices], None, None


def index_first_axis(values: torch.Tensor, indices: torch.Tensor) -> object:
    """Return the rows of ``(rows, ...)`` at the indices, as ``(len(indices), ...)``."""
    return _Take.apply(values, indices)


def index_put_first_axis(values: torch.Tensor, indices: torch.Tensor, first_axis_dim: int) -> Any:
    """Return ``(first_axis_dim, ...)`` with ``(len(indices), ...)`` at the indices, zero elsewhere."""
    return _Put.apply(values, indices, first_axis_dim)


def unpad_input(hidden_states: torch.Tensor, attention_mask: torch.Tensor, unused_mask: object = None) -> object:
    """Return the tokens of ``(batch, length, ...)`` under the mask, their indices, ``cu_seqlens``, the longest length, and
    from flash-attention 2.7.0 on how many of each sequence are used."""
    mask = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = mask.sum(dim=-1, dtype=torch.int32)
    used = attention_mask.sum(dim=-1, dtype=torch.int32)
    indices = torch.nonzero(mask.flatten(), as_tuple=False).flatten()
    longest = int(lengths.max().item())
    bounds = torch.nn.functional.pad(torch.cumsum(lengths, dim=0, dtype=torch.int32), (1, 0))
    unpadded = (index_first_axis(hidden_states.flatten(0, 1), indices), indices, bounds, longest)
    return (*unpadded, used) if flash_release.counts_used() else unpadded


def pad_input(hidden_states: torch.Tensor, indices: torch.Tensor, batch: int, seqlen: int) -> object:
    """Return ``(tokens, ...)`` padded to ``(batch, seqlen, ...)``."""
    return index_put_first_axis(hidden_states, indices, batch * seqlen).unflatten(0, (batch, seqlen))
