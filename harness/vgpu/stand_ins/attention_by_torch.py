"""Attention by sequence in fp32, with hand-written gradients: the computation of a flash kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import torch

#: Queries, keys and values, or their gradients.
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]

#: (first query, end, first key, end) of each sequence; None: the first dimension is the batch.
Cuts = list[tuple[int, int, int, int]] | None


@dataclasses.dataclass(frozen=True)
class Rule:
    """The options of an attention. ``window``: how many keys before and after its own a query sees; -1: all. Causal masks
    end at the last key."""

    dropout: float
    scale: float
    causal: bool
    window: tuple[int, int]
    softcap: float
    alibi_slopes: torch.Tensor | None
    deterministic: bool


def forward(inputs: Inputs, out: torch.Tensor, lse: torch.Tensor, rule: Rule, cuts: Cuts, seed: int) -> None:
    """Compute attention into ``out``, and the log-sum-exp of each row into ``lse``. ``seed`` draws the dropout."""
    q, k, v = inputs
    drawn = torch.Generator().manual_seed(seed)
    for index, (at_q, at_k) in enumerate(_sequences(q, k, cuts)):
        scores, _ = _scores(q[at_q], k[at_k], rule, index)
        rows = scores.logsumexp(-1)
        kept = _kept(scores, rule, drawn)
        out[at_q] = ((_softmax(scores) * kept) @ _heads(v[at_k], scores.shape[0])).transpose(0, 1).to(out.dtype)
        if cuts is None:
            lse[index] = rows
        else:
            lse[:, at_q] = rows


def backward(dout: torch.Tensor, inputs: Inputs, gradients: Inputs, rule: Rule, cuts: Cuts, seed: int) -> None:
    """Compute the gradients of queries, keys and values into ``gradients``, with the dropout that ``seed`` draws."""
    q, k, v = inputs
    drawn = torch.Generator().manual_seed(seed)
    dq, dk, dv = gradients
    for index, (at_q, at_k) in enumerate(_sequences(q, k, cuts)):
        scores, slope = _scores(q[at_q], k[at_k], rule, index)
        heads, groups = scores.shape[0], k.shape[-2]
        kept = _kept(scores, rule, drawn)
        weights = _softmax(scores)
        upstream = _heads(dout[at_q], heads)
        dweights = (upstream @ _heads(v[at_k], heads).transpose(-1, -2)) * kept
        dscores = weights * (dweights - (dweights * weights).sum(-1, keepdim=True)) * slope * rule.scale
        dq[at_q] = (dscores @ _heads(k[at_k], heads)).transpose(0, 1).to(dq.dtype)
        for target, value in (
            (dk, dscores.transpose(-1, -2) @ _heads(q[at_q], heads)),
            (dv, (weights * kept).transpose(-1, -2) @ upstream),
        ):
            target[at_k] = value.unflatten(0, (groups, -1)).sum(1).transpose(0, 1).to(target.dtype)


def _sequences(q: torch.Tensor, k: torch.Tensor, cuts: Cuts) -> Iterator[tuple[int | slice, int | slice]]:
    if cuts is None:
        yield from ((index, index) for index in range(q.shape[0]))
    else:
        yield from ((slice(a, b), slice(c, d)) for a, b, c, d in cuts)


def _heads(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """Return the heads as ``(heads, length, size)`` in fp32, those of a group repeated."""
    return tensor.float().transpose(0, 1).repeat_interleave(heads // tensor.shape[-2], 0)


def _scores(q: torch.Tensor, k: torch.Tensor, rule: Rule, index: int) -> tuple[torch.Tensor, torch.Tensor | float]:
    """Return the scores before the softmax, and their derivative by the scaled products."""
    heads = q.shape[-2]
    scores = _heads(q, heads) @ _heads(k, heads).transpose(-1, -2) * rule.scale
    slope: torch.Tensor | float = 1.0
    if rule.softcap > 0:
        bent = (scores / rule.softcap).tanh()
        scores, slope = bent * rule.softcap, 1 - bent**2
    ahead = torch.arange(k.shape[0]) - (torch.arange(q.shape[0]) + k.shape[0] - q.shape[0])[:, None]
    if rule.alibi_slopes is not None:
        slopes = rule.alibi_slopes if rule.alibi_slopes.ndim == 1 else rule.alibi_slopes[index]
        scores = scores - slopes.float()[:, None, None] * ahead.abs()
    before, after = rule.window[0], 0 if rule.causal else rule.window[1]
    hidden = torch.zeros_like(ahead, dtype=torch.bool)
    if before >= 0:
        hidden |= ahead < -before
    if after >= 0:
        hidden |= ahead > after
    return scores.masked_fill(hidden, float("-inf")), slope


def _softmax(scores: torch.Tensor) -> torch.Tensor:
    """Return the softmax; a row that sees nothing is zero."""
    return scores.softmax(-1).nan_to_num(0.0)


def _kept(scores: torch.Tensor, rule: Rule, drawn: torch.Generator) -> torch.Tensor | float:
    if not rule.dropout:
        return 1.0
    return (torch.rand(scores.shape, generator=drawn) >= rule.dropout).float() / (1 - rule.dropout)
