"""DeepSpeed's sequence parallelism (Ulysses, ALST) in plain PyTorch: each rank has a part of every sequence, and attention
is that of whole sequences. Where DeepSpeed exchanges tokens for heads, each rank gathers all tokens here, and keeps its own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from dsregress.programs.truth.plain_settings import NoTruth
from vgpu.replacing import Patches


def sequence_ranks(mpu: Any) -> int:
    """Return how many ranks divide each sequence, by what ``deepspeed.initialize`` is given as ``mpu``. Raise NoTruth if it
    divides anything else."""
    if mpu is None:
        return 1
    size = getattr(mpu, "get_sequence_parallel_world_size", None)
    layers = getattr(mpu, "get_model_parallel_world_size", lambda: 1)
    is_of_sequences = hasattr(
        mpu, "initialize_sequence_parallel"
    )  # DeepSpeed's own: by its "model" it means sequences too
    if size is None or (layers() != 1 and not is_of_sequences):
        raise NoTruth("it calls deepspeed.initialize with a mesh that divides more than sequences")
    return int(size())


def use_groups(patches: Patches, mpu: object) -> None:
    """Let a program ask DeepSpeed for the groups of its ``mpu``."""
    if mpu is not None:
        patches.replace(importlib.import_module("deepspeed.utils.groups"), "mpu", mpu)


def attend_to_whole_sequences(patches: Patches) -> None:
    """Replace the attention of both of DeepSpeed's interfaces."""
    for module, kind, forward in (
        ("deepspeed.sequence.layer", "DistributedAttention", _of_megatron),
        ("deepspeed.runtime.sequence_parallel.ulysses_sp", "UlyssesSPAttentionHF", _of_transformers),
    ):
        try:
            owner = getattr(importlib.import_module(module), kind)
        except ImportError:  # of a release without it, or whose own packages are missing: no program has it either
            continue
        patches.replace(owner, "forward", forward)


def _of_megatron(
    self: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    batch_dim_idx: int,
    *args: Any,
    **kwargs: Any,
) -> torch.Tensor:
    """Take its own attention of tensors in which ``gather_idx`` is the dimension of tokens. ``batch_dim_idx`` is for the
    exchange."""
    if (args and args[0] is not None) or kwargs.pop("rotary_pos_emb", None) is not None:
        raise NoTruth("its DistributedAttention rotates queries and keys itself")
    whole = [_Gathered.apply(one, self.spg, self.gather_idx) for one in (query, key, value)]
    # not as a module, which is watched: here it is given all heads
    attend = getattr(self.local_attn, "forward", self.local_attn)
    return _own(attend(*whole, *args[1:], **kwargs), self.spg, self.gather_idx)


def _of_transformers(
    self: Any,
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: object,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Take an attention function of transformers' of queries, keys and values of shape (batch, heads, tokens, size). Return
    its output, of shape (batch, tokens, width), and its weights."""
    attend: Callable[..., Any] = self.attn
    if not module.training and getattr(self, "disable_in_eval", False):
        return attend(module, query, key, value, attention_mask, *args, **kwargs)
    if attention_mask is not None:
        raise NoTruth("its attention to parts of sequences has a mask")
    whole = [_Gathered.apply(one, self.process_group, 2) for one in (query, key, value)]
    if (positions := kwargs.get("position_ids")) is not None:
        kwargs["position_ids"] = _Gathered.apply(positions, self.process_group, 1)
    out, weights = attend(module, *whole, None, *args, **kwargs)
    return _own(out, self.process_group, 1).flatten(2), weights


class _Gathered(torch.autograd.Function):
    """Tokens of all ranks: each rank's loss depends on them, so that their gradients are added up."""

    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, group: Any, dim: int) -> torch.Tensor:
        ctx.group, ctx.dim = group, dim
        own = own.contiguous()
        parts = [torch.empty_like(own) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, own, group=group)
        return torch.cat(parts, dim)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        added = gradient.contiguous().clone()
        dist.all_reduce(added, group=ctx.group)
        return _own(added, ctx.group, ctx.dim), None, None


def _own(whole: torch.Tensor, group: Any, dim: int) -> torch.Tensor:
    return whole.chunk(dist.get_world_size(group), dim)[dist.get_rank(group)]
