"""Attention over sequences that ranks divide, on CPU ranks: torch's context parallelism (`context_parallel`, and its module
wrapper) has it for the kernels of GPUs alone, and a CPU's attention is another operator.

So flash attention's two operators, which torch lacks for the CPU, are computed there by the CPU's own kernel, and attention
of divided tensors takes them while context parallelism is on. The ring around them is torch's.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import torch

from vgpu.replacing import Patches

aten = torch.ops.aten

#: A library must outlive the kernels that it registers.
_LIBRARY = torch.library.Library("aten", "IMPL", "CPU")

_FLASH = aten._scaled_dot_product_flash_attention


def _flash(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[object, ...]:
    """Return the output and, in fp32, a number per row and head (the log-sum-exp), of queries of shape (batch, heads,
    tokens, size); the rest, for packed rows, random numbers and debugging, is as empty as a GPU's."""
    repeats = query.shape[1] // key.shape[1]
    key, value = (one.repeat_interleave(repeats, dim=1) if repeats > 1 else one for one in (key, value))
    out, rows = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value, dropout_p, is_causal, scale=scale)
    random = [query.new_empty((), dtype=torch.int64) for _ in range(2)]
    return out, rows, None, None, query.shape[2], key.shape[2], *random, query.new_empty(0)


def _flash_backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *others: Any,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """Return the gradients of query, key and value, given ``others`` that the forward returned and took."""
    out, rows, _, _, _, _, dropout_p, is_causal, *_ = others
    heads, repeats = key.shape[1], query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = (one.repeat_interleave(repeats, dim=1) for one in (key, value))
    of_query, *of_others = aten._scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, query, key, value, out, rows, dropout_p, is_causal, scale=scale
    )
    return of_query, *(one.unflatten(1, (heads, repeats)).sum(2) if repeats > 1 else one for one in of_others)


for _name, _computes in {_FLASH.__name__: _flash, f"{_FLASH.__name__}_backward": _flash_backward}.items():
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_name}", "CPU"):  # torch 2.1 has its own
        _LIBRARY.impl(_name, _computes)


@contextlib.contextmanager
def on_cpu() -> Iterator[None]:
    """Take flash attention's operator for divided tensors within the block, while context parallelism is on."""
    attention: Any = torch.nn.functional.scaled_dot_product_attention

    @functools.wraps(attention)
    def attend(query: Any, key: Any, value: Any, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Any:
        # by its class first, without a call: those count as the program's host work
        if query.__class__ is torch.Tensor or attn_mask is not None or not _is_divided_by_context(query):
            return attention(query, key, value, attn_mask, *args, **kwargs)
        return _of_parts(query, key, value, *args, **kwargs)

    with Patches("context parallelism takes the CPU's attention") as patches:
        patches.definition(torch.nn.functional, "scaled_dot_product_attention", attend)
        yield


def _of_parts(
    query: Any,
    key: Any,
    value: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    return _FLASH(query, key, value, dropout_p, is_causal, False, scale=scale)[0]


def _is_divided_by_context(query: Any) -> bool:
    """Return True for a DTensor while context parallelism has put its ring in place of flash attention."""
    dispatcher = getattr(type(query), "_op_dispatcher", None)
    return _FLASH.default in getattr(dispatcher, "_custom_op_handlers", {})
