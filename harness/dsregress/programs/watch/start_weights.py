"""The weights with which a model trains first: what was loaded or drawn, before any step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.border.wire import BUFFER, LAST_ROW
from dsregress.programs.watch.tensor_names import without_numbers


def start_weights(module: torch.nn.Module) -> dict[str, list[float]]:
    """Return the mean of the absolute values of the weights, of the buffers, and of the last row of what has one for each
    token of a vocabulary, and their number, by the names of their tensors without numbers. Tensors of which this rank has a
    part, or none of the values, are left out."""
    sums: dict[str, list[float]] = {}
    unknown: set[str] = set()
    with _disable_current_modes(), torch.no_grad():
        for name, weight in itertools.chain(module.named_parameters(), _named_buffers(module), _last_rows(module)):
            alike = without_numbers(name)
            if not _is_whole(weight):
                unknown.add(alike)
                continue
            total = sums.setdefault(alike, [0.0, 0.0])
            total[0] += float(torch.linalg.vector_norm(weight.detach(), 1, dtype=torch.float64))
            total[1] += weight.numel()
    means = {name: [total / count, count] for name, (total, count) in sums.items() if name not in unknown}
    return {name: mean for name, mean in means.items() if math.isfinite(mean[0])}


def _named_buffers(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the buffers of floats: what a release leaves in memory that it has not filled may be anything."""
    for name, buffer in module.named_buffers():
        if buffer.is_floating_point():
            yield f"{BUFFER}{name}", buffer


def _last_rows(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the last rows of embeddings, and of weights with as many rows: rows that a job adds to a vocabulary hardly move
    the mean of all."""
    sizes = {one.num_embeddings for one in module.modules() if isinstance(one, torch.nn.Embedding)}
    for name, weight in module.named_parameters():
        if _is_whole(weight) and weight.dim() == 2 and len(weight) in sizes:
            yield f"{name}{LAST_ROW}", weight.detach()[-1]


def _is_whole(weight: torch.Tensor) -> bool:
    is_plain = type(weight) in (torch.Tensor, torch.nn.Parameter) and weight.layout is torch.strided
    is_flat = hasattr(weight, "_fsdp_flattened")
    return is_plain and not is_flat and weight.is_floating_point() and not weight.is_meta and weight.numel() > 0
