"""The categories of a DeepSpeed engine's tensors. Every attribute is looked up with a default, as attributes come and go
with releases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dsregress.probe.holders import categories


def held_tensors(engine: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield (category, name of the parameter or "", tensor) of everything that the engine and its optimizers refer to."""
    models = set()  # storages of whole parameters: an optimizer's lists of them add nothing
    for name, parameter in engine.module.named_parameters():
        yield from _of_parameter(name, parameter)
        models.add(parameter.untyped_storage()._cdata)
    optimizer = getattr(engine, "optimizer", None)
    for owner in (optimizer, getattr(optimizer, "optimizer", None)):
        if owner is None:
            continue
        for attribute, value in list(vars(owner).items()):
            if attribute in ("param_groups", "optimizer", "module", "modules"):
                continue
            category = categories.by_name(attribute)
            if category == categories.OTHER:
                continue
            for tensor in categories.tensors_of(value, _is_tensor):
                if hasattr(tensor, "ds_tensor") or tensor.untyped_storage()._cdata in models:
                    continue
                yield category, "", tensor
                if tensor.grad is not None:
                    yield categories.GRADIENTS, "", tensor.grad


def _of_parameter(name: str, parameter: torch.Tensor) -> Iterator[tuple[str, str, Any]]:
    shard = getattr(parameter, "ds_tensor", None)
    if shard is not None:
        yield categories.PARAMETER_SHARDS, name, shard
    whole = categories.GATHERED if hasattr(parameter, "ds_id") else categories.PARAMETERS
    yield whole, name, parameter
    secondary = getattr(parameter, "ds_secondary_tensor", None)
    if secondary is not None:
        yield categories.PARAMETER_SHARDS, name, secondary
    if parameter.grad is not None:
        yield categories.GRADIENTS, name, parameter.grad


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)
