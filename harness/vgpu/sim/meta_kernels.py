"""Meta kernels that releases of torch lack, or have only for fake tensors.

Attention before 2.5, as `torch._meta_registrations` of 2.5 has it; the gradients of weight norm; the optimizers' operations
on many tensors at once before 2.4; fused optimizers other than Adam and AdamW, and all with a learning rate that is a
tensor, in every release seen. The fused ones write into what they are given
(``aten/src/ATen/native/cuda/FusedSgdKernel.cu`` and those beside it). Further operators that no release has on meta: a
factorization of which `torch.nn.utils.parametrizations.orthogonal` begins, least squares, and two distributions.
"""

from __future__ import annotations

import math

import torch

#: A library must outlive the kernels that it registers.
_LIBRARY = torch.library.Library("aten", "IMPL", "Meta")


def _flash_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[object, ...]:
    """Return the output, one fp32 number per row, lengths, the generator's state, no debug mask."""
    batch, heads, rows, _ = query.shape
    return (
        torch.empty_like(query.transpose(1, 2)).transpose(1, 2),
        query.new_empty((batch, heads, rows), dtype=torch.float32),
        None,
        None,
        rows,
        key.shape[2],
        *_generator_state(query),
        query.new_empty(0),
    )


def _efficient_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_bias: torch.Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """Return the output, one fp32 number for each row, rounded up to a multiple of 32, and the generator's state."""
    batch, heads, rows, _ = query.shape
    return (
        query.new_empty((batch, rows, heads, value.shape[3])).transpose(1, 2),
        query.new_empty((batch, heads, math.ceil(rows / 32) * 32 if compute_log_sumexp else 0), dtype=torch.float32),
        *_generator_state(query),
    )


def _generator_state(query: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return query.new_empty((), dtype=torch.int64), query.new_empty((), dtype=torch.int64)


def _weight_norm_backward(
    grad_w: torch.Tensor, saved_v: torch.Tensor, saved_g: torch.Tensor, saved_norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of v and g (`weight_norm_backward_cuda` in ``aten/src/ATen/native/cuda/WeightNorm.cu``)."""
    return torch.empty_like(saved_v), torch.empty_like(saved_g)


def _geqrf(input: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both factors in the input's shape, by columns as LAPACK has them, and a number for each reflection
    (``aten/src/ATen/native/BatchLinearAlgebra.cpp``)."""
    factors = torch.empty_like(input.mT, memory_format=torch.contiguous_format).mT
    return factors, input.new_empty((*input.shape[:-2], min(input.shape[-2:])))


def _least_squares(
    input: torch.Tensor, other: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the solution, and what the one driver on a GPU, ``gels``, fills of the rest: residuals of more rows than
    columns (`linalg_lstsq_out_info` in ``aten/src/ATen/native/BatchLinearAlgebra.cpp``)."""
    rows, columns = input.shape[-2:]
    batch, is_vector = input.shape[:-2], other.dim() == input.dim() - 1
    right = () if is_vector else other.shape[-1:]
    return (
        other.new_empty((*batch, columns, *right)),
        other.new_empty((*batch, *right) if rows > columns else (0,)),
        input.new_empty((0,), dtype=torch.int64),
        input.new_empty((0,)),
    )


def _like_its_counts(count: torch.Tensor, prob: torch.Tensor, generator: object = None) -> torch.Tensor:
    return torch.empty_like(count, memory_format=torch.contiguous_format)


def _like_itself(input: torch.Tensor, generator: object = None) -> torch.Tensor:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _for_each(tensors: list[torch.Tensor], *_: object, **__: object) -> list[torch.Tensor]:
    return [torch.empty_like(tensor) for tensor in tensors]


def _for_each_in_place(*_: object, **__: object) -> None:
    """Do nothing: the tensors keep their shapes."""


_OF_MANY = tuple(
    f"_foreach_{name}{{}}.{overload}"
    for name, overloads in (
        ("addcdiv", ("ScalarList", "Tensor")),
        ("addcmul", ("ScalarList", "Tensor")),
        ("pow", ("List", "Scalar", "ScalarList")),
    )
    for overload in overloads
)

_FUSED = tuple(
    f"_fused_{name}_{overload}" for name in ("adam", "adamw", "sgd", "adagrad") for overload in ("", ".tensor_lr")
)

for _name, _shapes in (
    ("_scaled_dot_product_flash_attention", _flash_attention),
    ("_scaled_dot_product_efficient_attention", _efficient_attention),
    ("_weight_norm_interface_backward", _weight_norm_backward),
    ("geqrf", _geqrf),
    ("linalg_lstsq", _least_squares),
    ("binomial", _like_its_counts),
    ("_sample_dirichlet", _like_itself),
    *((name.format(""), _for_each) for name in _OF_MANY),
    *((name.format("_"), _for_each_in_place) for name in _OF_MANY),
    *((name, _for_each_in_place) for name in _FUSED if f"aten::{name}" in torch._C._dispatch_get_all_op_names()),
):
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{_name}", "Meta"):
        _LIBRARY.impl(_name, _shapes)
