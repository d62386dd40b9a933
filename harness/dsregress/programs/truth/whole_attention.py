"""Attention over whole sequences, for ranks that divide them: what context parallelism has to give each rank, whatever it
sends around."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from dsregress.programs.truth.plain_settings import NoTruth
from dsregress.programs.truth.ranks_in_step import RanksInStep
from vgpu.replacing import Patches

_TOKENS = -2  #: the dimension of queries, keys and values along which ranks divide them


class _AttentionOptions(NamedTuple):
    """Those of `torch.nn.functional.scaled_dot_product_attention`."""

    attn_mask: torch.Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


@dataclasses.dataclass(frozen=True)
class _Call:
    """One rank's call of attention: its own tokens' queries, keys and values, of shape (batch, heads, tokens, size)."""

    tensors: tuple[torch.Tensor, ...]
    options: _AttentionOptions


class WholeAttention:
    """``tokens``: of each rank, the places of its tokens in the whole sequence."""

    def __init__(self, together: RanksInStep, tokens: Sequence[torch.Tensor]) -> None:
        self._together = together
        self._back = torch.cat(list(tokens)).argsort()
        self._counts, self._tokens = [len(one) for one in tokens], list(tokens)
        self._attend: Any = torch.nn.functional.scaled_dot_product_attention

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """Let models take it within the block."""
        with Patches("plain PyTorch attends to whole sequences") as patches:
            patches.definition(torch.nn.functional, "scaled_dot_product_attention", self._attended)
            yield

    def _attended(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        options = _AttentionOptions(*args, **kwargs)
        if options.attn_mask is not None or options.dropout_p:
            raise NoTruth(f"its attention to parts of sequences has {'dropout' if options.dropout_p else 'a mask'}")
        return _Attended.apply(query, key, value, self, options)

    def forward(self, call: _Call) -> tuple[torch.Tensor, Any]:
        """Return a rank's output, and what its backward needs."""
        return self._together.meet(call, self._combined)

    def backward(self, gradient: torch.Tensor, made: _Made) -> tuple[torch.Tensor, ...]:
        """Return the gradients of a rank's queries, keys and values."""
        return self._together.meet((gradient, made), self._combined_gradients)

    def _combined(self, calls: Sequence[Any]) -> Sequence[Any]:
        if any(not isinstance(call, _Call) or call.options != calls[0].options for call in calls):
            raise NoTruth("ranks that divide its sequences call its attention differently")
        taken = calls[0].options._asdict()
        # what it saves is no rank's, of which checkpointing would compute it again
        with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is):
            whole = [self._put_together([call.tensors[at] for call in calls]).requires_grad_() for at in range(3)]
            out = self._attend(*whole, **taken)
        made = _Made(whole, out)
        return [(part, made) for part in self._cut(out.detach())]

    def _combined_gradients(self, brought: Sequence[Any]) -> Sequence[Any]:
        made = brought[0][1]
        if any(one[1] is not made for one in brought):
            raise NoTruth("ranks that divide its sequences call its attention differently")
        whole = self._put_together([gradient for gradient, _ in brought])
        of_whole = torch.autograd.grad(made.out, made.whole, whole.to(made.out.dtype))
        return list(zip(*(self._cut(one) for one in of_whole)))

    def _put_together(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        if [part.shape[_TOKENS] for part in parts] != self._counts:
            raise NoTruth("its attention has other tokens than its ranks' parts of sequences")
        return torch.cat([part.detach() for part in parts], _TOKENS).index_select(_TOKENS, self._back)

    def _cut(self, whole: torch.Tensor) -> list[torch.Tensor]:
        return [whole.index_select(_TOKENS, tokens) for tokens in self._tokens]


@dataclasses.dataclass
class _Made:
    """One attention of all ranks: its inputs, which have gradients, and its output."""

    whole: list[torch.Tensor]
    out: torch.Tensor


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


class _Attended(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Any, key: Any, value: Any, attention: WholeAttention, options: Any) -> Any:
        ctx.attention = attention
        out, ctx.made = attention.forward(_Call((query, key, value), options))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return (*ctx.attention.backward(gradient, ctx.made), None, None)
