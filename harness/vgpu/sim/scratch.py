"""Memory that kernels take from the allocator and give back while they run, if it grows with the tensors.

A tensor's own bytes are booked by the operators that make it; these are a kernel's own. Read in PyTorch's sources, at the
functions that each rule names. Kernels of fixed scratch memory, and of less than a row of numbers, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

aten = torch.ops.aten

#: (operator's arguments) -> the bytes of tensors that live at the same time, one tuple for each such time.
Rule = Callable[..., Sequence[tuple[int, ...]]]

_FP32 = 4  #: bytes

#: ``NROWS_PER_THREAD`` of ``aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu``.
_ROWS_PER_THREAD = 10

#: Up to so many indices, one kernel sums all without sorting them (`embedding_dense_backward_cuda` in
#: ``aten/src/ATen/native/cuda/Embedding.cu``).
_UNSORTED_INDICES = 3072

#: ``kBlockSizeI`` and ``kBlockSizeJ`` of the kernels for head sizes up to 64 (``mem_eff_attention/kernel_backward.h``);
#: those for larger ones have at most twice as many rows.
_BLOCK = 64

#: A lock and a counter, padded (``GradQTempStorage`` there).
_LOCK = 16


def _flash_backward(heads_at: int, rows_at: int) -> Rule:
    """Return the rule of `mha_bwd` in ``aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp``: dQ in fp32 and a
    number for each row, both for a multiple of 128 rows, and dK and dV of every query's head, if several share one."""

    def rule(
        _: object, query: torch.Tensor, key: torch.Tensor, *__: object, **___: object
    ) -> Sequence[tuple[int, ...]]:
        if query.dim() != 4:
            return ()
        batch, heads, size = query.shape[0], query.shape[heads_at], query.shape[-1]
        rows = _up(query.shape[rows_at], 128)
        sums = batch * rows * heads * _up(size, 32 if size <= 128 else 64) * _FP32
        expanded = batch * key.shape[rows_at] * heads * size * key.element_size()
        shared = key.shape[heads_at] != heads
        return ((batch * heads * rows * _FP32, sums, *((expanded, expanded) if shared else ())),)

    return rule


def _efficient_backward(
    _: object, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *__: object, **___: object
) -> Sequence[tuple[int, ...]]:
    """Return the scratch of `_efficient_attention_backward` in
    ``aten/src/ATen/native/transformers/cuda/attention_backward.cu`` and `workspace_elements_gq`: dQ in fp32 by blocks, and a
    number for each row. In fp32 that number is made beforehand, of the product of the output and its gradient."""
    batch, heads, rows, size = query.shape
    numbers = batch * heads * rows * _FP32
    blocks = math.ceil(rows / _BLOCK) * math.ceil(size / _BLOCK)
    sums = batch * heads * blocks * (_BLOCK * _BLOCK * _FP32 + _LOCK)
    if query.dtype == torch.float32:
        return ((numbers * value.shape[-1], numbers), (numbers, sums))
    return ((numbers, sums),)


def _embedding_backward(
    gradient: torch.Tensor, indices: torch.Tensor, num_weights: int, *_: object, **__: object
) -> Sequence[tuple[int, ...]]:
    """Return the scratch of `embedding_backward_cuda_kernel` in ``aten/src/ATen/native/cuda/EmbeddingBackwardKernel.cu``:
    sorted indices, the first row of each, and sums in fp32 of up to ten rows each."""
    count = indices.numel()
    if count <= _UNSORTED_INDICES:
        return ()
    segments = min(count, num_weights)
    parts = count // _ROWS_PER_THREAD + segments
    index = indices.element_size()
    sums = parts * gradient.shape[-1] * max(_FP32, gradient.element_size())
    return ((*(count * index,) * 3, *(segments * index,) * 2, parts * index, sums),)


def _softmax_backward(
    gradient: torch.Tensor, output: torch.Tensor, *_: object, **__: object
) -> Sequence[tuple[int, ...]]:
    """Return the product of the gradient and the output, which `softmax_backward_cuda_out` in
    ``aten/src/ATen/native/cuda/SoftMax.cu`` makes first; that of log_softmax does not."""
    size = max(gradient.element_size(), output.element_size())
    return ((math.prod(torch.broadcast_shapes(gradient.shape, output.shape)) * size,),)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _known(**rules: Rule) -> dict[Any, Rule]:
    """Return the rules by operator, for the operators that this torch has."""
    return {getattr(aten, name).default: rule for name, rule in rules.items() if hasattr(aten, name)}


ON_GPU: dict[Any, Rule] = _known(
    _scaled_dot_product_flash_attention_backward=_flash_backward(heads_at=1, rows_at=2),
    _flash_attention_backward=_flash_backward(heads_at=2, rows_at=1),
    _scaled_dot_product_efficient_attention_backward=_efficient_backward,
    embedding_dense_backward=_embedding_backward,
    _softmax_backward_data=_softmax_backward,
)
