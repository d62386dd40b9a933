"""``liger_kernel``'s operations: the memory of its Triton kernels.

Sizes: ``liger_kernel/ops/rms_norm.py``, ``swiglu.py``, ``rope.py`` and ``fused_linear_cross_entropy.py`` of Liger-Kernel
0.6.1 to 0.8. Most backward kernels overwrite their inputs with the gradient.
"""

from __future__ import annotations

from typing import Any

import torch

from vgpu.device import launching
from vgpu.no_stand_in import NoStandInError

#: Remark when the fused loss is used: the fp32 copy of the weight's gradient came with Liger-Kernel 0.6.1 (commit 2845fe83).
LOSS_RELEASES = (
    "liger_kernel is not installed: its fused loss has the sizes of Liger-Kernel 0.6.1 to 0.8. Releases before hold less; "
    "where the job has one, install it (`--with liger-kernel==RELEASE`)"
)


class LigerRMSNormFunction(torch.autograd.Function):
    """The RMS norm of ``(..., size)`` with a ``(size,)`` weight. Keeps its input and an fp32 number per row."""

    @staticmethod
    def forward(
        ctx: Any,
        X: torch.Tensor,
        W: torch.Tensor,
        eps: float,
        offset: float = 0.0,
        casting_mode: str = "llama",
        in_place: bool = True,
        row_mode: bool | None = None,
    ) -> torch.Tensor:
        shape = X.shape
        X = X.view(-1, shape[-1])
        out = torch.empty_like(X)
        rows = X.new_empty(X.shape[0], dtype=X.dtype if casting_mode == "none" else torch.float32)
        with launching.kernel(out, rows) as compute:
            if compute:
                x = X.float()
                rows.copy_((x.pow(2).mean(-1) + eps).rsqrt())
                out.copy_(_normed(x, W, rows.float(), offset, casting_mode, X.dtype))
        ctx.save_for_backward(X, W, rows)
        ctx.offset, ctx.in_place = offset, in_place
        return out.view(shape)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        X, W, rows = ctx.saved_tensors
        shape = gradient.shape
        gradient = gradient.contiguous().view(-1, shape[-1])
        partial = torch.empty((launching.card().multiprocessors, shape[-1]), dtype=torch.float32, device=W.device)
        out = gradient if ctx.in_place else torch.zeros_like(gradient)
        with launching.kernel(out, partial) as compute:
            if compute:
                g, x, r = gradient.float(), X.float(), rows.float()[:, None]
                normed = x * r
                partial.zero_()[0] = (g * normed).sum(0)
                weighted = g * (W.float() + ctx.offset)
                out.copy_(r * (weighted - normed * (weighted * normed).mean(-1, keepdim=True)))
        return out.view(shape), partial.sum(dim=0).to(W.dtype), *(None,) * 5


def _normed(
    x: torch.Tensor, W: torch.Tensor, rows: torch.Tensor, offset: float, casting_mode: str, dtype: torch.dtype
) -> torch.Tensor:
    normed = x * rows[:, None]
    if casting_mode != "gemma":
        normed = normed.to(dtype)
        return normed * (W + offset)
    return normed * (W.float() + offset)


class LigerSiLUMulFunction(torch.autograd.Function):
    """The product silu(a) b. The gradients overwrite a and b."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.contiguous(), b.contiguous()
        out = torch.empty_like(a)
        with launching.kernel(out) as compute:
            if compute:
                out.copy_(torch.nn.functional.silu(a.float()).to(b.dtype) * b)
        ctx.save_for_backward(a, b)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        a, b = (tensor.detach() for tensor in ctx.saved_tensors)
        gradient = gradient.contiguous()
        with launching.kernel(a, b) as compute:
            if compute:
                g, x = gradient.float(), a.float()
                gate = x.sigmoid()
                da = g * b.float() * gate * (1 + x * (1 - gate))
                b.copy_(g * x * gate)
                a.copy_(da)
        return a, b


class LigerRopeFunction(torch.autograd.Function):
    """Rotates ``(batch, heads, length, size)``, in place if the layout is the projection's, as in a model."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        ctx.save_for_backward(cos, sin)
        return _rotated(q, k, cos, sin, 1)

    @staticmethod
    def backward(ctx: Any, dq: torch.Tensor, dk: torch.Tensor) -> Any:  # type: ignore[override]
        cos, sin = ctx.saved_tensors
        return *_rotated(dq, dk, cos, sin, -1), None, None, None, None


def _rotated(
    q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, way: int
) -> tuple[torch.Tensor, torch.Tensor]:
    q, k = (tensor.detach().transpose(1, 2).contiguous() for tensor in (q, k))
    cos, sin = cos.contiguous(), sin.contiguous()
    with launching.kernel(q, k) as compute:
        if compute:
            half = q.shape[-1] // 2
            c, s = cos[..., None, :half].float(), sin[..., None, :half].float() * way
            for tensor in (q, k):
                first, second = tensor.float().split(half, -1)
                tensor.copy_(torch.cat((first * c - second * s, second * c + first * s), -1))
    return q.transpose(1, 2), k.transpose(1, 2)


class LigerFusedLinearCrossEntropyFunction(torch.autograd.Function):
    """The loss of ``(tokens, size)``, ``(vocabulary, size)`` and ``(tokens,)``: the logits of a part of the tokens at a
    time, overwritten by their gradient; the gradients of input and weight are computed in forward and kept.

    A part has the power of two of tokens from tokens / (vocabulary / size) on.
    """

    @staticmethod
    def forward(
        ctx: Any,
        _input: torch.Tensor,
        weight: torch.Tensor,
        target: torch.Tensor,
        bias: torch.Tensor | None = None,
        ce_weight: torch.Tensor | None = None,
        ignore_index: int = -100,
        lse_square_scale: float = 0.0,
        label_smoothing: float = 0.0,
        reduction: str = "mean",
        softcap: float | None = None,
        return_z_loss: bool = False,
        accum_dtype: torch.dtype | None = None,
    ) -> torch.Tensor:
        if ce_weight is not None or return_z_loss or reduction not in ("mean", "sum"):
            raise NoStandInError(
                "LigerFusedLinearCrossEntropyLoss has no stand-in for ce_weight, return_z_loss and reduction='none'"
            )
        launching.note(LOSS_RELEASES)
        tokens, size = _input.shape
        part = part_of(tokens, weight.shape[0], size)
        grad_input = torch.zeros_like(_input)
        grad_weight = grad_bias = None
        if _input.requires_grad:
            if weight.requires_grad:
                grad_weight = torch.zeros_like(weight, dtype=accum_dtype)
            if bias is not None:
                grad_bias = torch.zeros_like(bias, dtype=accum_dtype)
        losses = torch.zeros(tokens, dtype=torch.float32, device=_input.device)
        counted = (target != ignore_index).sum()
        for start in range(0, tokens, part):
            chunk, labels = _input[start : start + part], target[start : start + part].contiguous()
            logits = chunk @ weight.t()
            if bias is not None:
                logits = logits + bias
            logits = logits.contiguous()
            with launching.kernel(logits, losses) as compute:
                if compute:
                    divisor = max(int(counted), 1) if reduction == "mean" else 1
                    rule = (ignore_index, lse_square_scale, label_smoothing, softcap, divisor)
                    losses[start : start + part] = _entropy(logits, labels, *rule)
            if _input.requires_grad:
                grad_input[start : start + part] = logits @ weight
            if grad_weight is not None:
                grad_weight += torch.mm(logits.t(), chunk.to(logits.dtype)).float()
            if grad_bias is not None:
                torch.add(grad_bias, logits.sum(dim=0), out=grad_bias)
            del logits
        loss = torch.sum(losses)
        ctx.save_for_backward(
            grad_input,
            None if grad_weight is None else grad_weight.to(weight.dtype),
            None if grad_bias is None else grad_bias.to(bias.dtype),  # type: ignore[union-attr]
        )
        return loss

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        gradients = [None if each is None else each.detach() for each in ctx.saved_tensors]
        made = [each for each in gradients if each is not None]
        with launching.kernel(*made, launches=1 + len(made)) as compute:
            if compute and float(gradient) != 1.0:
                for each in made:
                    each.mul_(gradient)
        return gradients[0], gradients[1], None, gradients[2], *(None,) * 8


def part_of(tokens: int, vocabulary: int, size: int) -> int:
    """Return the number of tokens whose logits are computed at a time."""
    share = -(-tokens // -(-vocabulary // size))
    return 1 << max(0, share - 1).bit_length()


def _entropy(
    logits: torch.Tensor,
    labels: torch.Tensor,
    ignored: int,
    square: float,
    smoothing: float,
    softcap: float | None,
    divisor: int,
) -> torch.Tensor:
    """Return the losses; their gradient overwrites the logits."""
    x, slope = logits.float(), None
    if softcap is not None:
        bent = (x / softcap).tanh()
        x, slope = bent * softcap, 1 - bent**2
    ignore = labels == ignored
    safe = labels.masked_fill(ignore, 0)[:, None]
    lse = x.logsumexp(-1)
    losses = lse - (1 - smoothing) * x.gather(1, safe)[:, 0] - smoothing * x.mean(-1) + square * lse**2
    gradient = (x - lse[:, None]).exp() * (1 + 2 * square * lse[:, None]) - smoothing / x.shape[1]
    gradient.scatter_add_(1, safe, torch.full((len(labels), 1), -(1 - smoothing)))
    if slope is not None:
        gradient *= slope
    logits.copy_(gradient.masked_fill(ignore[:, None], 0) / divisor)
    return losses.masked_fill(ignore, 0) / divisor


__all__ = [
    "LigerFusedLinearCrossEntropyFunction",
    "LigerRMSNormFunction",
    "LigerRopeFunction",
    "LigerSiLUMulFunction",
]
