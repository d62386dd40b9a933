"""``bitsandbytes``: the products of quantized layers (``bitsandbytes/autograd/_functions.py`` and ``backends`` of 0.48).

In 4 bits the whole weight is rebuilt for each product, forward and backward, and only its bytes are kept between. In 8 bits
the product of bytes is int32, then fp16, then the input's dtype, and the input is kept.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from vgpu.device import launching
from vgpu.stand_ins import bnb_functional as functional
from vgpu.stand_ins.bnb_functional import QuantState

__all__ = [
    "MatMul4Bit",
    "MatMul8bitLt",
    "MatmulLtState",
    "features",
    "matmul",
    "matmul_4bit",
    "supported_torch_devices",
]

features = {"multi_backend"}
supported_torch_devices = {"cpu", "cuda"}


class MatMul4Bit(torch.autograd.Function):
    """The product of ``(..., in)`` and the weight that ``B`` and ``quant_state`` give, transposed."""

    @staticmethod
    def forward(
        ctx: Any, A: torch.Tensor, B: torch.Tensor, out: Any, bias: torch.Tensor | None, quant_state: QuantState
    ) -> torch.Tensor:
        weight = functional.dequantize_4bit(B, quant_state).to(A.dtype)
        product = torch.nn.functional.linear(A, weight.t(), bias)
        ctx.state, ctx.bias_dtype = quant_state, None if bias is None else bias.dtype
        ctx.weight = (
            B if any(ctx.needs_input_grad[:2]) else None
        )  # no saved tensor: hooks of checkpointing do not see it
        return product

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        of_input, _, _, of_bias, _ = ctx.needs_input_grad
        bias = gradient.sum(0, dtype=ctx.bias_dtype) if of_bias else None
        A = None
        if of_input:
            weight = functional.dequantize_4bit(ctx.weight, ctx.state).to(gradient.dtype)
            A = torch.matmul(gradient, weight.t())
        return A, None, None, bias, None


def matmul_4bit(
    A: torch.Tensor,
    B: torch.Tensor,
    quant_state: QuantState,
    out: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
) -> Any:
    """Multiply by a weight in 4 bits: a single row without gradient by one kernel, any other input by the rebuilt weight."""
    is_row = A.numel() == A.shape[-1] and not A.requires_grad
    if is_row and A.shape[-1] % (quant_state.blocksize or 64) == 0:
        out = functional.gemv_4bit(A, B.t(), out, state=quant_state)
        if bias is not None:
            out += bias
        return out
    return MatMul4Bit.apply(A, B, out, bias, quant_state)


@dataclasses.dataclass
class MatmulLtState:
    """A layer's state in addition to its weight: the weight in bytes (``CB``), and its rows' fp32 numbers (``SCB``)."""

    CB: torch.Tensor | None = None
    SCB: torch.Tensor | None = None
    threshold: float = 0.0
    idx: torch.Tensor | None = None
    is_training: bool = True
    has_fp16_weights: bool = True
    memory_efficient_backward: bool = False  #: of older releases; peft 0.8 reads it
    use_pool: bool = False

    def reset_grads(self) -> None:
        """Drop the bytes and their fp32 numbers: the next product quantizes anew."""
        self.CB = self.SCB = None


class MatMul8bitLt(torch.autograd.Function):
    """The product of ``(..., in)`` and ``(out, in)``, transposed."""

    @staticmethod
    def forward(
        ctx: Any, A: torch.Tensor, B: torch.Tensor, out: Any, bias: torch.Tensor | None, state: MatmulLtState
    ) -> torch.Tensor:
        shape = A.shape
        if A.dim() == 3:
            A = A.reshape(-1, shape[-1])
        by_column = columns = None
        if ctx.needs_input_grad[1]:
            by_row, by_column, rows, columns, outliers = functional.int8_double_quant(
                A.to(torch.float16), threshold=state.threshold
            )
        else:
            by_row, rows, outliers = functional.int8_vectorwise_quant(A.to(torch.float16), threshold=state.threshold)
        changes = state.has_fp16_weights and state.is_training and B.grad is None
        if changes or state.CB is None or state.SCB is None:
            state.reset_grads()
            state.CB, state.SCB, _ = functional.int8_vectorwise_quant(B.to(torch.float16))
        assert state.CB is not None
        assert state.SCB is not None
        given = None
        if state.threshold > 0.0:
            state.idx = outliers
            given, exact = _beyond(A, state.CB, state.SCB, outliers)
            product = _int8_product(by_row, state.CB, rows, state.SCB, bias, A.dtype)
            if exact is not None:
                product = product.addmm(given, exact)
        else:
            product = _int8_product(by_row, state.CB, rows, state.SCB, bias, A.dtype)
        ctx.state, ctx.shape, ctx.dtype = state, shape, A.dtype
        ctx.bias_dtype = None if bias is None else bias.dtype
        # As the package keeps them: no saved tensors, so hooks of checkpointing do not see them.
        ctx.kept = (by_column, given, A, columns, state.idx) if any(ctx.needs_input_grad[:2]) else None
        # Of its memory and no view of it: peft 0.8 adds to it in place, which older releases allow.
        product = product.contiguous()
        of_tokens = product.view((*shape[:-1], state.CB.shape[0]))
        return product.new_empty(0).set_(product.untyped_storage(), 0, of_tokens.shape, of_tokens.stride())

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        of_input, of_weight, _, of_bias, _ = ctx.needs_input_grad
        state = ctx.state
        bias = gradient.sum(0, dtype=ctx.bias_dtype) if of_bias else None
        if gradient.dim() == 3:
            gradient = gradient.reshape(-1, gradient.shape[-1]).contiguous()
        weight = A = None
        if of_weight:
            by_column, given, _, columns, outliers = ctx.kept
            _, across, _, scales, _ = functional.int8_double_quant(gradient.to(torch.float16))
            weight = _int8_product(across.t().contiguous(), by_column.t(), scales, columns, None, torch.float16)
            if given is not None and given.numel():
                weight[:, outliers] += torch.matmul(gradient.t(), given)
        if of_input:
            whole = state.CB.to(ctx.dtype, copy=True).mul_(state.SCB.unsqueeze(1).mul(1.0 / 127.0))
            A = torch.matmul(gradient.to(ctx.dtype), whole).view(ctx.shape)
        return A, weight, None, bias, None


def _beyond(
    A: torch.Tensor, CB: torch.Tensor, SCB: torch.Tensor, columns: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return input and weight of the columns with elements beyond the threshold, which are multiplied unquantized."""
    if columns is None or not columns.numel():
        return torch.empty(0, device=A.device, dtype=A.dtype), None
    weight = functional.int8_vectorwise_dequant(CB[:, columns].contiguous(), SCB).to(A.dtype).t()
    return A[:, columns].contiguous(), weight


def _int8_product(
    A: torch.Tensor, B: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor, bias: Any, dtype: torch.dtype
) -> torch.Tensor:
    """Return ``(m, k)`` times ``(n, k)``, transposed."""
    m, n = A.shape[0], B.shape[0]
    whole = torch.empty((m, n), device=A.device, dtype=torch.int32)
    with launching.kernel(whole, flops=2 * m * n * A.shape[1]) as compute:
        if compute:
            whole.copy_(torch.matmul(A.float(), B.float().t()))
    out = torch.empty_like(whole, dtype=torch.float16)
    is_fused = bias is not None and bias.dtype == torch.float16
    with launching.kernel(out) as compute:
        if compute:
            scaled = whole.float() * (rows.view(-1, 1) * columns.view(1, -1)) / (127.0 * 127.0)
            out.copy_(scaled + bias.float() if is_fused else scaled)
    if bias is not None and not is_fused:
        out.add_(bias)
    return out.to(dtype)


def matmul(
    A: torch.Tensor,
    B: torch.Tensor,
    out: torch.Tensor | None = None,
    state: MatmulLtState | None = None,
    threshold: float = 0.0,
    bias: torch.Tensor | None = None,
) -> object:
    """Multiply by a weight in 8 bits; columns with elements beyond ``threshold`` are multiplied unquantized."""
    state = state or MatmulLtState()
    if threshold > 0.0:
        state.threshold = threshold
    return MatMul8bitLt.apply(A, B, out, bias, state)
