"""The invariant of replicas: weights that several ranks keep are equal on all of them after a step, to the last bit, as each
applies the same sum of gradients to the same weights. It needs no reference.

DistributedDataParallel's ranks have replicas of a whole model, and those that divide its layers by a tensor parallel plan of
what they do not divide, such as its norms.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.oracles.truth import parameter_digest
from dsregress.programs.watch.layer_plans import is_divided, names_of_own_parts
from dsregress.programs.watch.weight_pieces import UnknownDivision, local_values, weights_of

#: The digest of each weight, or part of one, by what tells the part.
_Digests = dict[object, str]


def replicas_apart(module: Any) -> int:
    """Return the number of ranks whose trained weights are not those of the first rank that has the same, of a module that
    trains. Collective over the ranks that have replicas.

    0 for a module without replicas, and for one whose gradients are combined by a hook of the program's: it may keep them
    apart on purpose, as local SGD does.
    """
    if isinstance(module, torch.nn.parallel.DistributedDataParallel):
        return 0 if module._comm_hooks else _apart_in_ddp(module)
    return _apart_in_plan(module) if isinstance(module, torch.nn.Module) and is_divided(module) else 0


def _apart_in_ddp(module: torch.nn.Module) -> int:
    with _disable_current_modes():
        weights = {
            name: parameter.detach().cpu()
            for name, parameter in module.module.named_parameters()
            if parameter.requires_grad and name not in module.parameters_to_ignore
        }
        digests: list[Any] = [None] * torch.distributed.get_world_size(module.process_group)
        torch.distributed.all_gather_object(digests, parameter_digest(weights), group=module.process_group)
    return sum(digest != digests[0] for digest in digests)


def _apart_in_plan(module: torch.nn.Module) -> int:
    meshes = [one.device_mesh for one in module.parameters() if hasattr(one, "device_mesh")]
    if not meshes:
        return 0
    with _disable_current_modes():
        ranks = [_digests(module)]
        mesh = max(meshes, key=lambda one: one.size())
        for dim in range(mesh.ndim):
            gathered: list[list[_Digests]] = [[] for _ in range(mesh.size(dim))]
            torch.distributed.all_gather_object(gathered, ranks, group=mesh.get_group(dim))
            ranks = [one for of_rank in gathered for one in of_rank]
    known: _Digests = {}
    return sum(any(known.setdefault(part, digest) != digest for part, digest in rank.items()) for rank in ranks)


def _digests(module: torch.nn.Module) -> _Digests:
    try:
        weights = weights_of(module)
    except UnknownDivision:
        return {}
    unknown = tuple(f"{name}." if name else "" for name in names_of_own_parts(module))
    return {
        weight.pieces: parameter_digest({"": local_values(weight.parameter)})
        for weight in weights
        if weight.parameter.requires_grad and (weight.is_divided or not weight.pieces[0].name.startswith(unknown))
    }
