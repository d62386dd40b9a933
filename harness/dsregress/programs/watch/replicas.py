"""The invariant of replicas: the weights that DistributedDataParallel keeps are equal on all its ranks after a step, to the
last bit, as each rank applies the same sum of gradients to the same weights. It needs no reference."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dsregress.probe.oracles.truth import parameter_digest


def replicas_apart(module: Any) -> int:
    """Return the number of ranks whose trained weights are not the first rank's, of a module that trains. Collective over
    the ranks of a DistributedDataParallel's process group.

    0 for any other module, and for one whose gradients are combined by a hook of the program's: it may keep replicas apart
    on purpose, as local SGD does.
    """
    if not isinstance(module, torch.nn.parallel.DistributedDataParallel) or module._comm_hooks:
        return 0
    with _disable_current_modes():
        weights = {
            name: parameter.detach().cpu()
            for name, parameter in module.module.named_parameters()
            if parameter.requires_grad and name not in module.parameters_to_ignore
        }
        digests: list[Any] = [None] * torch.distributed.get_world_size(module.process_group)
        torch.distributed.all_gather_object(digests, parameter_digest(weights), group=module.process_group)
    return sum(digest != digests[0] for digest in digests)
