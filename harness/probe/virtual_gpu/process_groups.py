"""``init_process_group("nccl")`` and what follows from it.

In sim a program joins torch's ``fake`` group, in cpu mode gloo's; both answer with the backend that the program named. A
simulated rank starts without a group, as a launched one does.

Of ``cpu:gloo,cuda:nccl`` a checkpoint that is saved in the background uses the first, while training goes on over the
second. In cpu mode both would be one group of gloo's, which must not be called by two threads at once; so threads get one
of their own.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from harness.probe.process.ordered_gloo import OrderedGloo
from harness.probe.replacing import Patches
from harness.probe.sim.errors import SimulationError, caller, location
from harness.probe.sim.simulation import join_fake_group


@contextlib.contextmanager
def joined(target: str, rank: int, world_size: int) -> Iterator[None]:
    """The functions of ``torch.distributed`` that a program on GPUs calls. In sim, the simulation's group is left and joined
    again at the end."""
    simulated = target == "meta"
    if simulated and dist.is_initialized():
        dist.destroy_process_group()
    named: dict[int, str] = {}
    with Patches() as patches:
        c10d: Any = dist.distributed_c10d
        backend = "fake" if simulated else "gloo"
        _groups(patches, c10d, backend, rank, world_size, named)
        _own_groups(patches, c10d, backend, named)
        for name in ("is_nccl_available", "is_backend_available"):
            _everywhere(patches, c10d, name, lambda *_: True)
        if not simulated:
            patches.set(c10d, "ProcessGroupGloo", OrderedGloo)
            _meshes(patches, target)
            _barriers(patches, c10d)
            _gathers(patches, c10d)
            _coalescing(patches, c10d)
            _wrappers(patches, target)
        if simulated:
            _meetings(patches, c10d, rank, world_size)
            _objects(patches, c10d, world_size)
            _checks(patches, c10d)
        try:
            yield
        finally:
            patches.close()
            if simulated:
                if dist.is_initialized():
                    dist.destroy_process_group()
                join_fake_group(dist.init_process_group, rank, world_size)


def _everywhere(patches: Patches, c10d: Any, name: str, value: Any) -> None:
    """In the module that defines it and in those that imported it from there: ``torch.distributed`` and its device mesh,
    DeepSpeed, accelerate."""
    original = getattr(c10d, name, None)
    if original is not None:
        patches.everywhere(original, value, name)


def _groups(patches: Patches, c10d: Any, backend: str, rank: int, world_size: int, named: dict[int, str]) -> None:
    init, new, get, destroy = c10d.init_process_group, c10d.new_group, c10d.get_backend, c10d.destroy_process_group
    get_default = c10d._get_default_group
    of_threads: list[Any] = []  #: a second default group, of all threads but the main one

    def init_process_group(backend_named: Any = None, *args: Any, **kwargs: Any) -> None:
        wanted = kwargs.pop("backend", backend_named)
        kwargs.pop("device_id", None)  # it makes NCCL connect at once
        if backend == "fake":
            given = (kwargs.get("rank", -1), kwargs.get("world_size", -1))
            if given[0] not in (-1, rank) or given[1] not in (-1, world_size):
                raise SimulationError(
                    f"a process group with rank {given[0]} of {given[1]}, while this is rank {rank} of {world_size}. At "
                    f"{location(caller())}"
                )
            join_fake_group(init, rank, world_size)
        else:
            init("gloo", *args, **kwargs)
            if {"cpu", "cuda"} <= _parts(wanted).keys():
                of_threads.append(new(None, None, backend))
        named[id(dist.group.WORLD)] = _shown(wanted)

    def new_group(ranks: Any = None, timeout: Any = None, backend_named: Any = None, *args: Any, **kwargs: Any) -> Any:
        wanted = kwargs.pop("backend", backend_named)
        kwargs.pop("device_id", None)
        group = new(ranks, timeout, backend, *args, **kwargs)
        named[id(group)] = _shown(wanted) if wanted else named.get(id(dist.group.WORLD), "nccl")
        return group

    def get_backend(group: Any = None) -> str:
        get(group)  # its errors
        return named.get(id(group or dist.group.WORLD), "nccl")

    def destroy_process_group(group: Any = None) -> None:
        destroy(group)
        if group is None:
            named.clear()
            of_threads.clear()

    def _get_default_group() -> Any:
        group = get_default()
        is_main = threading.current_thread() is threading.main_thread()
        return of_threads[0] if of_threads and not is_main else group

    _everywhere(patches, c10d, "_get_default_group", _get_default_group)
    _everywhere(patches, c10d, "init_process_group", init_process_group)
    _everywhere(patches, c10d, "new_group", new_group)
    _everywhere(patches, c10d, "get_backend", get_backend)
    _everywhere(patches, c10d, "destroy_process_group", destroy_process_group)


def _own_groups(patches: Patches, c10d: Any, backend: str, named: dict[int, str]) -> None:
    """Groups that a program makes by torch's internals, as OpenRLHF does of a trainer's rank and of an engine's processes,
    beside the default one."""
    make = c10d._new_process_group_helper

    def _new_process_group_helper(size: int, rank: int, ranks: Any, wanted: Any, *args: Any, **kwargs: Any) -> Any:
        if str(wanted) in _HERE[backend]:
            return make(size, rank, ranks, wanted, *args, **kwargs)
        made = make(size, rank, ranks, c10d.Backend(backend), *args, **kwargs)
        named[id(made[0])] = _shown(wanted)
        return made

    _everywhere(patches, c10d, "_new_process_group_helper", _new_process_group_helper)


#: Backends that a group can have as it is, by what stands in for NCCL.
_HERE = {"fake": ("fake",), "gloo": ("gloo", "cpu:gloo,cuda:gloo", "fake", "mpi")}


def _meetings(patches: Patches, c10d: Any, rank: int, world_size: int) -> None:
    """``rendezvous``, which waits for processes that are not there: they have come."""

    def rendezvous(url: str, own_rank: int = -1, size: int = -1, **kwargs: Any) -> Iterator[Any]:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        yield FakeStore(), rank if own_rank == -1 else own_rank, world_size if size == -1 else size

    _everywhere(patches, c10d, "rendezvous", rendezvous)


def _meshes(patches: Patches, target: str) -> None:
    """``init_device_mesh("cuda", ...)``, where tensors say that they are on the target."""
    meshes: Any = sys.modules.get("torch.distributed.device_mesh")
    if meshes is None:
        return
    make = meshes.DeviceMesh.__init__

    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        make(self, target if device_type == "cuda" else device_type, *args, **kwargs)

    patches.set(meshes.DeviceMesh, "__init__", __init__)


def _barriers(patches: Patches, c10d: Any) -> None:
    """``barrier(device_ids=[0])``, for which torch makes a tensor on that card, in C++."""
    wait = c10d.barrier

    @functools.wraps(wait)
    def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, *args: Any, **kwargs: Any) -> Any:
        return wait(group, async_op, None, *args, **kwargs)

    _everywhere(patches, c10d, "barrier", barrier)


def _gathers(patches: Patches, c10d: Any) -> None:
    """NCCL takes any shapes that have the elements, and writes where autograd does not look; gloo compares shapes, and
    copies in front of autograd."""

    def flat(value: Any) -> Any:
        return value.view(-1) if isinstance(value, torch.Tensor) and value.is_contiguous() else value

    def as_nccl(collective: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(collective)
        def on_flat(*args: Any, **kwargs: Any) -> Any:
            with torch.no_grad():
                return collective(*map(flat, args), **{name: flat(value) for name, value in kwargs.items()})

        return on_flat

    newer = ("all_gather_single", "reduce_scatter_single")  # 2.13
    for name in ("all_gather_into_tensor", "reduce_scatter_tensor", *filter(c10d.__dict__.get, newer)):
        _everywhere(patches, c10d, name, as_nccl(getattr(c10d, name)))


def _coalescing(patches: Patches, c10d: Any) -> None:
    """What NCCL launches together, gloo runs one by one."""

    @contextlib.contextmanager
    def one_by_one(group: Any = None, device: Any = None, async_ops: bool | None = False) -> Iterator[Any]:
        yield c10d._CoalescingManager()

    if hasattr(c10d, "_CoalescingManager"):
        _everywhere(patches, c10d, "_coalescing_manager", one_by_one)


def _wrappers(patches: Patches, target: str) -> None:
    """DDP and FSDP insist on cards for a model that is on one, and compare its device with the one that they are given."""
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    make = parallel.__init__

    @functools.wraps(make)
    def __init__(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        make(self, module, None, None, *args, **kwargs)

    patches.set(parallel, "__init__", __init__)
    fsdp: Any = sys.modules.get("torch.distributed.fsdp._init_utils")
    if fsdp is not None:
        given = fsdp._get_device_from_device_id
        patches.replace(fsdp, "_check_module_states_for_sync_module_states", lambda states: None)
        patches.replace(fsdp, given.__name__, lambda *args, **kwargs: given(*args, **kwargs) and torch.device(target))


def _shown(wanted: Any) -> str:
    """What `get_backend` says of a group: the part for CUDA of ``cpu:gloo,cuda:nccl``."""
    parts = _parts(wanted)
    return parts.get("cuda", "nccl" if wanted is None or parts else str(wanted).lower())


def _parts(wanted: Any) -> dict[str, str]:
    """Device -> backend."""
    return dict(part.split(":") for part in str(wanted).lower().split(",") if ":" in part)


def _objects(patches: Patches, c10d: Any, world_size: int) -> None:
    """Collectives on Python objects: all ranks have what this one has."""

    def size(group: Any) -> int:
        return int(dist.get_world_size(group))

    def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
        object_list[:] = [obj] * len(object_list)

    def gather_object(obj: Any, object_gather_list: Any = None, dst: Any = None, group: Any = None, **_: Any) -> None:
        if object_gather_list is not None:
            object_gather_list[:] = [obj] * size(group)

    def scatter_object_list(
        output: list[Any], inputs: Any = None, src: Any = None, group: Any = None, **_: Any
    ) -> None:
        if inputs is None:
            raise SimulationError(
                f"scatter_object_list on a rank that does not have the objects: simulate the rank that scatters. At "
                f"{location(caller())}"
            )
        output[0] = inputs[dist.get_rank(group)]

    def broadcast_object_list(object_list: list[Any], src: Any = None, group: Any = None, *_: Any, **__: Any) -> None:
        if src != dist.get_rank() and any(each is None for each in object_list):
            raise SimulationError(
                f"broadcast_object_list on a rank that does not have the objects: simulate rank {src}. At "
                f"{location(caller())}"
            )

    for name, answer in {
        "all_gather_object": all_gather_object,
        "gather_object": gather_object,
        "scatter_object_list": scatter_object_list,
        "broadcast_object_list": broadcast_object_list,
        "monitored_barrier": lambda group=None, *_, **__: dist.barrier(group),
    }.items():
        _everywhere(patches, c10d, name, answer)


def _checks(patches: Patches, c10d: Any) -> None:
    """DDP compares the parameters' shapes across ranks, in C++ and by value: they agree."""

    def agreed(*_: Any, **__: Any) -> None:
        """Every rank has the same."""

    patches.replace(dist, "_verify_params_across_processes", agreed)
    for owner in (dist.utils, torch.nn.parallel.distributed):
        patches.replace(owner, "_verify_param_shape_across_processes", agreed)
