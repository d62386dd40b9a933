"""gloo whose collectives end in the order in which they began, as NCCL's do.

CPU ranks represent GPUs. NCCL runs the collectives of a group on one stream, so a program that waits for the last of
many has waited for all. gloo gives them to two threads, which end them in any order. Until 0.19.7 DeepSpeed waits for
the last all-gather alone (``_allgather_params_coalesced`` in ``deepspeed/runtime/zero/partition_parameters.py``): over
NCCL that is right; over gloo it sometimes computes with what was in memory before. With one thread gloo keeps the order,
too.
"""

from __future__ import annotations

import os
from datetime import timedelta

import torch.distributed as dist


class OrderedGloo(dist.ProcessGroupGloo):  # type: ignore[name-defined, misc]
    """Replaces ``torch.distributed.distributed_c10d.ProcessGroupGloo``, and takes the same arguments: those that a
    release of torch adds are options of its own class, by the same name."""

    def __init__(
        self, store: object, rank: int, size: int, timeout: timedelta = timedelta(minutes=30), **added: object
    ) -> None:
        options = dist.ProcessGroupGloo._Options()
        options._devices = _devices()
        options._timeout = timeout
        options._threads = 1
        for name, value in added.items():
            setattr(options, name, value)  # raises AttributeError if this release's options lack it
        super().__init__(store, rank, size, options)


def _devices() -> list[object]:
    """Return the devices that torch's own constructor chooses."""
    interfaces = [name for name in os.environ.get("GLOO_SOCKET_IFNAME", "").split(",") if name]
    gloo = dist.ProcessGroupGloo
    return [gloo.create_device(interface=name) for name in interfaces] or [gloo.create_default_device()]
