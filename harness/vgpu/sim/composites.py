"""Composite operators whose parts depend on the tensor's device, decomposed as on a GPU.

They are taken apart above autograd, by code that checks for a CUDA tensor; on meta they are taken apart as on a CPU, which
keeps other tensors for backward:

- *dropout*: one kernel, which keeps a byte for each element; elsewhere noise in the tensor's own dtype, in fp32 four times
  as much (`is_fused_kernel_acceptable` in ``aten/src/ATen/native/Dropout.cpp``). In place it is the same everywhere;
- *softmax and log_softmax of fp16 in fp32*: the kernel reads fp16; elsewhere a copy in fp32 comes first
  (``aten/src/ATen/native/SoftMax.cpp``);
- *rms_norm*, from torch 2.9 on: one kernel, which keeps its input and a number for each row; elsewhere five, and the normed
  tensor is kept as well (`rms_norm_symint` in ``aten/src/ATen/native/layer_norm.cpp``, `_fused_rms_norm_cuda` in
  ``aten/src/ATen/native/cuda/layer_norm_kernel.cu``). A weight of another dtype than the input's leaves this to torch.

*istft* is taken apart as elsewhere, and reads a value on the way.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from vgpu.sim import answers

aten = torch.ops.aten

_TAKEN_APART = torch._C.DispatchKey.CompositeImplicitAutograd


def _dropout(input: torch.Tensor, p: float, train: bool) -> object:
    if train and 0 < p < 1 and input.numel():
        return aten.native_dropout(input, p, train)[0]
    return aten.dropout.default._op_dk(_TAKEN_APART, input, p, train)


def _softmax(op: Any, kernel: Any) -> Callable[..., object]:
    def softmax(input: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> object:
        if input.dtype == torch.float16 and dtype == torch.float32:
            return kernel(input, dim, True)
        return op._op_dk(_TAKEN_APART, input, dim, dtype)

    return softmax


def _inverse_spectrum(*args: object, **kwargs: object) -> object:
    with answers.windows_overlap():
        return aten.istft.default._op_dk(_TAKEN_APART, *args, **kwargs)


def _normed(
    input: torch.Tensor, normalized_shape: list[int], weight: torch.Tensor | None, eps: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the shapes of `_fused_rms_norm`: the output, and one number per row in the dtype of sums."""
    rows = [*input.shape[: input.dim() - len(normalized_shape)], *(1 for _ in normalized_shape)]
    summed = torch.float64 if input.dtype == torch.float64 else torch.float32
    normed = torch.empty_like(input, memory_format=torch.contiguous_format)
    return normed, input.new_empty(rows, dtype=summed)


def _on_meta(kernel: Callable[..., object]) -> Callable[..., object]:
    def on_meta(*args: object, **kwargs: object) -> object:
        with torch._C.DisableTorchFunction():
            return kernel(*args, **kwargs)

    return on_meta


@contextlib.contextmanager
def as_on_gpu() -> Iterator[None]:
    """Treat tensors on meta as those on CUDA within the block."""
    library: Any = torch.library.Library("aten", "IMPL")
    try:
        library.impl("dropout", _on_meta(_dropout), "AutogradMeta")
        library.impl("softmax.int", _on_meta(_softmax(aten.softmax.int, aten._softmax)), "AutogradMeta")
        library.impl("log_softmax.int", _on_meta(_softmax(aten.log_softmax.int, aten._log_softmax)), "AutogradMeta")
        library.impl("istft", _on_meta(_inverse_spectrum), "AutogradMeta")
        if hasattr(aten, "_fused_rms_norm_backward"):
            # With a kernel of its own on meta, torch no longer takes it apart there. `Library.impl` refuses one where an
            # operator could be taken apart.
            library.m.impl("_fused_rms_norm", "Meta", _on_meta(_normed), False)
        yield
    finally:
        library._destroy()
