"""``flash_attn``'s cross entropy: keeps the logits and the log-sum-exp of each row, and computes their gradient in backward
(``flash_attn/ops/triton/cross_entropy.py``)."""

from __future__ import annotations

from typing import Any

import torch

from vgpu.device import launching
from vgpu.no_stand_in import NoStandInError

__all__ = ["CrossEntropyLoss", "cross_entropy_loss"]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, labels: torch.Tensor, options: tuple[Any, ...]) -> Any:
        smoothing, scale, square, ignored, _ = options
        if logits.stride(-1) != 1:
            logits = logits.contiguous()
        losses, lse, z_losses = (
            torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device) for _ in range(3)
        )
        with launching.kernel(losses, lse, z_losses) as compute:
            if compute:
                scaled = logits.float() * scale
                lse.copy_(scaled.logsumexp(-1))
                ignore = labels == ignored
                right = scaled.gather(1, labels.masked_fill(ignore, 0)[:, None])[:, 0]
                z_losses.copy_((square * lse**2).masked_fill(ignore, 0))
                plain = lse - (1 - smoothing) * right - smoothing * scaled.mean(-1)
                losses.copy_(plain.masked_fill(ignore, 0) + z_losses)
        ctx.save_for_backward(logits, lse, labels)
        ctx.mark_non_differentiable(z_losses)
        ctx.options = options
        return losses, z_losses

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        logits, lse, labels = ctx.saved_tensors
        smoothing, scale, square, ignored, in_place = ctx.options
        out = logits if in_place else torch.empty_like(logits)
        with launching.kernel(out) as compute:
            if compute:
                ignore = labels == ignored
                weights = (logits.float() * scale - lse[:, None]).exp() * (1 + 2 * square * lse[:, None])
                weights -= smoothing / logits.shape[1]
                one = torch.full((len(labels), 1), -(1 - smoothing))
                weights.scatter_add_(1, labels.masked_fill(ignore, 0)[:, None], one)
                out.copy_(weights * scale * gradient.masked_fill(ignore, 0)[:, None])
        return out, None, None


def cross_entropy_loss(
    logits: torch.Tensor,
    labels: torch.Tensor,
    precomputed_lse: torch.Tensor | None = None,
    label_smoothing: float = 0.0,
    logit_scale: float = 1.0,
    lse_square_scale: float = 0.0,
    ignore_index: int = -100,
    inplace_backward: bool = False,
    process_group: object = None,
) -> Any:
    """Return the losses of ``(rows, vocabulary)`` logits and ``(rows,)`` labels, and their part for the log-sum-exp, each
    ``(rows,)`` in fp32. Raise NoStandInError for ``process_group`` and ``precomputed_lse``."""
    if precomputed_lse is not None or process_group is not None:
        raise NoStandInError("flash_attn's cross entropy has no stand-in for process_group and precomputed_lse")
    options = (label_smoothing, logit_scale, lse_square_scale, ignore_index, inplace_backward)
    return _CrossEntropy.apply(logits, labels, options)


class CrossEntropyLoss(torch.nn.Module):
    def __init__(
        self,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
        logit_scale: float = 1.0,
        lse_square_scale: float = 0.0,
        inplace_backward: bool = False,
        process_group: Any = None,
        return_z_loss: bool = False,
    ) -> None:
        super().__init__()
        if reduction not in ("mean", "none", "sum"):
            raise NotImplementedError("Only support reduction = 'mean' or 'none' or 'sum'")
        self.ignore_index, self.reduction, self.return_z_loss = ignore_index, reduction, return_z_loss
        self._options = (label_smoothing, logit_scale, lse_square_scale, ignore_index, inplace_backward, process_group)

    def forward(self, input: torch.Tensor, target: torch.Tensor, precomputed_lse: object = None) -> Any:
        losses = cross_entropy_loss(input, target, precomputed_lse, *self._options)
        if self.reduction == "mean":
            losses = tuple(loss.sum() / (target != self.ignore_index).sum() for loss in losses)
        elif self.reduction == "sum":
            losses = tuple(loss.sum() for loss in losses)
        return losses if self.return_z_loss else losses[0]
