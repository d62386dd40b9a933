"""Trained weights that no step moves: a head that a release has cut from the loss may get a gradient, and gets none.

Two sums over each tensor after the first step and after the last one tell whether anything moved between them. Of a sharded
tensor they are those of this rank's part. ZeRO gives what gets no gradient one of zeros, so that weight decay moves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.programs.watch.tensor_names import without_numbers
from dsregress.programs.watch.weight_pieces import clean_name, unwrapped

#: A value of half precision above it may be too coarse for a small update, as the ones of a norm's weight are.
_COARSE = 1e-3


class StillWeights:
    """The trained tensors of a module that have not moved since this was made; with ``frozen``, the frozen ones."""

    def __init__(self, module: torch.nn.Module, *, frozen: bool = False) -> None:
        self._frozen = frozen
        self._before = _sums(module, frozen=frozen)

    def unmoved(self, module: torch.nn.Module) -> list[str]:
        """Return the names of the tensors, without numbers, of which none has moved; empty if nothing has, or if it is not
        known of one of them."""
        after = _sums(module, frozen=self._frozen)
        moved: dict[str, bool] = {}
        for name, sums in self._before.items():
            alike = without_numbers(name)
            is_still = sums is not None and after.get(name) == sums
            moved[alike] = moved.get(alike, False) or not is_still
        return [name for name, has_moved in moved.items() if not has_moved] if any(moved.values()) else []

    def moved_names(self, module: torch.nn.Module) -> list[str]:
        """Return the names of the tensors that have moved, as far as it is known."""
        after = _sums(module, frozen=self._frozen)
        pairs = ((name, sums, after.get(name)) for name, sums in self._before.items())
        return _of_model(module, [name for name, before, now in pairs if None not in (before, now) and before != now])

    def all_unmoved(self, module: torch.nn.Module) -> list[str]:
        """Return the names of all tensors if it is known of each that it has not moved; else none."""
        after = _sums(module, frozen=self._frozen)
        is_still = all(sums is not None and after.get(name) == sums for name, sums in self._before.items())
        return _of_model(module, self._before) if is_still else []


def _of_model(module: torch.nn.Module, names: Iterable[str]) -> list[str]:
    """Return the names that a module's tensors have in the model within its wrappers."""
    prefix = "" if unwrapped(module) is module else "module."
    return [clean_name(name.removeprefix(prefix)) for name in names]


def _sums(module: torch.nn.Module, *, frozen: bool) -> dict[str, tuple[float, float] | None]:
    """Return two sums over each trained tensor, or each ``frozen`` one; None of one that tells nothing."""
    with _disable_current_modes(), torch.no_grad():
        return {
            name: _sum(_own_shard(one)) for name, one in module.named_parameters() if one.requires_grad is not frozen
        }


def _own_shard(parameter: Any) -> torch.Tensor:
    """Return this rank's part of a parameter that ZeRO-3 or FSDP2 shards, else all of it."""
    shard = getattr(parameter, "ds_tensor", None)
    if shard is None:
        shard = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    part: torch.Tensor = shard.detach()
    return part


def _sum(part: torch.Tensor) -> tuple[float, float] | None:
    if part.numel() == 0 or part.is_meta or not part.is_floating_point():
        return None
    if part.element_size() < torch.float32.itemsize and float(part.abs().min()) > _COARSE:
        return None
    norm = float(torch.linalg.vector_norm(part, dtype=torch.float64))
    return (float(part.sum(dtype=torch.float64)), norm) if math.isfinite(norm) else None
