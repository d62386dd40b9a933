"""The invariant of replicas: weights that several ranks keep are equal on all of them after a step, to the last bit, as each
applies the same sum of gradients to the same weights. It needs no reference.

DistributedDataParallel's ranks have replicas of a whole model, also where the program calls the model itself and so shares
nothing. Those of an engine of ZeRO's first two stages have one, too, and those that divide a model's layers, by a tensor
parallel plan or AutoTP, have replicas of what they do not divide, such as its norms.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.distributed import ProcessGroup
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.oracles.truth import parameter_digest
from dsregress.programs.watch.layer_plans import is_divided, names_of_own_parts
from dsregress.programs.watch.stepper_facts import is_engine
from dsregress.programs.watch.weight_pieces import UnknownDivision, clean_name, local_values, weights_of

#: The digest of each weight, or part of one, by what tells the part, and the weight's name.
_Digests = dict[object, tuple[str, str]]


@dataclass(frozen=True)
class Apart:
    """The ranks whose trained weights are not those of the first rank that has the same, and the names of these weights."""

    ranks: int = 0
    names: list[str] = field(default_factory=list)


def wrapper_of(module: torch.nn.Module) -> DistributedDataParallel | None:
    """Return the DistributedDataParallel that wraps a module which the program calls itself; None if there is none."""
    if not torch.distributed.is_initialized() or torch.distributed.get_world_size() == 1:
        return None
    wrappers = (one for one in gc.get_objects() if type(one) is DistributedDataParallel)
    return next((one for one in wrappers if one.module is module), None)


def replicas_apart(module: torch.nn.Module | None) -> Apart:
    """Compare the replicas of a module that trains. Collective over the ranks that have replicas.

    None are apart of a module without replicas, and of one whose gradients are combined by a hook of the program's: it may
    keep them apart on purpose, as local SGD does.
    """
    if not isinstance(module, torch.nn.Module):
        return Apart()
    if isinstance(module, DistributedDataParallel):
        return Apart() if module._comm_hooks else _apart_in_group(_of_ddp(module), module.process_group)
    if is_engine(module):
        return _apart_of_engine(module)
    return _apart_in_plan(module) if is_divided(module) else Apart()


def _of_ddp(module: DistributedDataParallel) -> Mapping[str, torch.Tensor]:
    return {
        name: parameter
        for name, parameter in module.module.named_parameters()
        if parameter.requires_grad and name not in module.parameters_to_ignore
    }


def _apart_of_engine(engine: Any) -> Apart:
    """Compare the weights that all ranks of an engine keep: none that ZeRO-3 divides, and no experts of some ranks. Ranks
    that divide layers, by AutoTP or as Megatron's do, mark what they divide."""
    weights = {
        name: parameter
        for name, parameter in engine.module.named_parameters()
        if parameter.requires_grad and not hasattr(parameter, "ds_id") and getattr(parameter, "allreduce", True)
    }
    whole = {name: one for name, one in weights.items() if not getattr(one, "tensor_model_parallel", False)}
    data, layers = getattr(engine, "data_parallel_group", None), _group_of_layers(engine)
    apart = [_apart_in_group(of, group) for of, group in ((weights, data), (whole, layers)) if group is not None]
    return Apart(sum(one.ranks for one in apart), list(dict.fromkeys(name for one in apart for name in one.names)))


def _group_of_layers(engine: object) -> ProcessGroup | None:
    """Return the group of ranks that divide an engine's layers with this one; None if there is none."""
    group_of = getattr(getattr(engine, "mpu", None), "get_tensor_model_parallel_group", None)
    with contextlib.suppress(AssertionError):  # DeepSpeed's own, of a group that was not made
        return None if group_of is None else group_of()
    return None


def _apart_in_group(weights: Mapping[str, torch.Tensor], group: ProcessGroup) -> Apart:
    with _disable_current_modes():
        own: _Digests = {
            name: (parameter_digest({"": parameter.detach().cpu()}), clean_name(name))
            for name, parameter in weights.items()
        }
        gathered: list[_Digests] = [{} for _ in range(torch.distributed.get_world_size(group))]
        torch.distributed.all_gather_object(gathered, own, group=group)
    return _apart(gathered)


def _apart(ranks: list[_Digests]) -> Apart:
    known: _Digests = {}
    names: dict[str, None] = {}
    count = 0
    for digests in ranks:
        others = [one[1] for part, one in digests.items() if known.setdefault(part, one)[0] != one[0]]
        names |= dict.fromkeys(others)
        count += bool(others)
    return Apart(count, list(names))


def _apart_in_plan(module: torch.nn.Module) -> Apart:
    meshes = [one.device_mesh for one in module.parameters() if hasattr(one, "device_mesh")]
    if not meshes:
        return Apart()
    with _disable_current_modes():
        ranks = [_digests(module)]
        mesh = max(meshes, key=lambda one: one.size())
        for dim in range(mesh.ndim):
            gathered: list[list[_Digests]] = [[] for _ in range(mesh.size(dim))]
            torch.distributed.all_gather_object(gathered, ranks, group=mesh.get_group(dim))
            ranks = [one for of_rank in gathered for one in of_rank]
    return _apart(ranks)


def _digests(module: torch.nn.Module) -> _Digests:
    try:
        weights = weights_of(module)
    except UnknownDivision:
        return {}
    unknown = tuple(f"{name}." if name else "" for name in names_of_own_parts(module))
    return {
        weight.pieces: (parameter_digest({"": local_values(weight.parameter)}), weight.pieces[0].name)
        for weight in weights
        if weight.parameter.requires_grad and (weight.is_divided or not weight.pieces[0].name.startswith(unknown))
    }
