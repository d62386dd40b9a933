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

from vgpu.device.ordered_gloo import OrderedGloo
from vgpu.own_copies import note_copies
from vgpu.replacing import Patches
from vgpu.sim.errors import SimulationError, caller, location
from vgpu.sim.simulation import join_fake_group


@contextlib.contextmanager
def joined_groups(target: str, rank: int, world_size: int) -> Iterator[None]:
    """Replace the functions of ``torch.distributed`` that a program on GPUs calls, within the block. In sim, leave the
    simulation's group and join it again at the end."""
    simulated = target == "meta"
    if simulated and dist.is_initialized():
        dist.destroy_process_group()
    named: dict[int, str] = {}
    with Patches("collectives of NCCL without NCCL") as patches:
        c10d: Any = dist.distributed_c10d
        backend = "fake" if simulated else "gloo"
        _groups(patches, c10d, backend, rank, world_size, named)
        _own_groups(patches, c10d, backend, named)
        for name in ("is_nccl_available", "is_backend_available"):
            _everywhere(patches, c10d, name, lambda *_, **__: True)
        if not simulated:
            for module in (c10d, dist):
                patches.replace(module, "ProcessGroupGloo", OrderedGloo)
            _meshes(patches, target)
            _barriers(patches, c10d)
            _gathers(patches, c10d)
            _gathers_of_lists(patches, c10d)
            _averages(patches, c10d)
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


def _everywhere(patches: Patches, c10d: object, name: str, value: Any) -> None:
    """Replace a function in the module that defines it and in those that imported it from there: ``torch.distributed`` and
    its device mesh, DeepSpeed, accelerate."""
    patches.everywhere(getattr(c10d, name), value, name)


def _groups(patches: Patches, c10d: Any, backend: str, rank: int, world_size: int, named: dict[int, str]) -> None:
    init, new, get, destroy = c10d.init_process_group, c10d.new_group, c10d.get_backend, c10d.destroy_process_group
    get_default = c10d._get_default_group
    of_threads: list[Any] = []  #: a second default group, of all threads but the main one

    def init_process_group(backend_named: object = None, *args: object, **kwargs: object) -> None:
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

    def new_group(
        ranks: object = None, timeout: object = None, backend_named: object = None, *args: object, **kwargs: Any
    ) -> object:
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

    def _get_default_group() -> object:
        group = get_default()
        is_main = threading.current_thread() is threading.main_thread()
        return of_threads[0] if of_threads and not is_main else group

    _everywhere(patches, c10d, "_get_default_group", _get_default_group)
    _everywhere(patches, c10d, "init_process_group", init_process_group)
    _everywhere(patches, c10d, "new_group", new_group)
    _everywhere(patches, c10d, "get_backend", get_backend)
    _everywhere(patches, c10d, "destroy_process_group", destroy_process_group)


def _own_groups(patches: Patches, c10d: Any, backend: str, named: dict[int, str]) -> None:
    """Replace the backend of groups that a program creates by torch's internals, as OpenRLHF does for a trainer's rank and
    an engine's processes, in addition to the default group."""
    make = c10d._new_process_group_helper

    def _new_process_group_helper(
        size: int, rank: int, ranks: object, wanted: object, *args: object, **kwargs: object
    ) -> object:
        if str(wanted) in _HERE[backend]:
            return make(size, rank, ranks, wanted, *args, **kwargs)
        made = make(size, rank, ranks, c10d.Backend(backend), *args, **kwargs)
        named[id(made[0])] = _shown(wanted)
        return made

    _everywhere(patches, c10d, "_new_process_group_helper", _new_process_group_helper)


#: Backends that a group keeps, by the backend that stands in for NCCL.
_HERE = {"fake": ("fake",), "gloo": ("gloo", "cpu:gloo,cuda:gloo", "fake", "mpi")}


def _meetings(patches: Patches, c10d: object, rank: int, world_size: int) -> None:
    """Make ``rendezvous`` return at once: it waits for processes that do not exist in sim."""

    def rendezvous(url: str, own_rank: int = -1, size: int = -1, **kwargs: object) -> Iterator[Any]:
        from torch.testing._internal.distributed.fake_pg import FakeStore

        yield FakeStore(), rank if own_rank == -1 else own_rank, world_size if size == -1 else size

    _everywhere(patches, c10d, "rendezvous", rendezvous)


def _meshes(patches: Patches, target: str) -> None:
    """Make ``init_device_mesh("cuda", ...)`` use the target, which tensors name as their device."""
    meshes: Any = sys.modules.get("torch.distributed.device_mesh")
    if meshes is None:
        return
    make = meshes.DeviceMesh.__init__

    def __init__(self: object, device_type: str, *args: object, **kwargs: object) -> None:
        make(self, target if device_type == "cuda" else device_type, *args, **kwargs)

    patches.replace(meshes.DeviceMesh, "__init__", __init__)


def _barriers(patches: Patches, c10d: Any) -> None:
    """Drop the devices of ``barrier(device_ids=[0])``, for which torch creates a tensor on that card, in C++."""
    wait = c10d.barrier

    @functools.wraps(wait)
    def barrier(
        group: object = None, async_op: bool = False, device_ids: object = None, *args: object, **kwargs: object
    ) -> Any:
        return wait(group, async_op, None, *args, **kwargs)

    _everywhere(patches, c10d, "barrier", barrier)


def _gathers(patches: Patches, c10d: Any) -> None:
    """Make gloo gather as NCCL does: NCCL takes any shapes with the same number of elements and writes unseen by autograd;
    gloo compares shapes, and copies through autograd."""

    def as_nccl(collective: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(collective)
        def on_flat(*args: object, **kwargs: object) -> object:
            with torch.no_grad():
                return collective(*map(_flat, args), **{name: _flat(value) for name, value in kwargs.items()})

        return on_flat

    newer = ("all_gather_single", "reduce_scatter_single")  # 2.13
    for name in ("all_gather_into_tensor", "reduce_scatter_tensor", *filter(c10d.__dict__.get, newer)):
        _everywhere(patches, c10d, name, as_nccl(getattr(c10d, name)))


#: gloo says so before it sends anything.
_OTHER_SIZE = "invalid tensor size"


def _gathers_of_lists(patches: Patches, c10d: Any) -> None:
    """Make gloo gather lists as NCCL does: of other shapes with the same number of elements, and of unlike numbers, of which
    NCCL broadcasts each."""
    gather = c10d.all_gather

    @functools.wraps(gather)
    def all_gather(
        tensor_list: list[torch.Tensor], tensor: torch.Tensor, group: Any = None, async_op: bool = False
    ) -> Any:
        try:  # first, as what is called here counts as the program's host work
            return gather(tensor_list, tensor, group, async_op)
        except RuntimeError as error:
            if _OTHER_SIZE not in str(error):
                raise
        with torch.no_grad():
            if len({one.numel() for one in tensor_list}) == 1:
                return gather([*map(_flat, tensor_list)], _flat(tensor), group, async_op)
            work = None
            for rank, gathered in enumerate(tensor_list):
                if rank == dist.get_rank(group):
                    gathered.copy_(tensor)
                of_all = dist.get_global_rank(group or dist.group.WORLD, rank)
                work = dist.broadcast(gathered, of_all, group, async_op=async_op)
            return work

    _everywhere(patches, c10d, "all_gather", all_gather)


def _flat(value: Any) -> Any:
    return value.view(-1) if isinstance(value, torch.Tensor) and value.is_contiguous() else value


def _averages(patches: Patches, c10d: Any) -> None:
    """Average integers with gloo as NCCL does, rounded towards zero: gloo divides them into floats and refuses those."""
    reduce, total, average = c10d.all_reduce, dist.ReduceOp.SUM, dist.ReduceOp.AVG

    @functools.wraps(reduce)
    def all_reduce(tensor: Any, op: object = total, group: object = None, async_op: bool = False) -> Any:
        if op != average or tensor.is_floating_point() or tensor.is_complex():
            return reduce(tensor, op, group, async_op)
        work = reduce(tensor, total, group, async_op=True)
        if work is not None:  # of a rank in the group
            work.wait()
            tensor.div_(dist.get_world_size(group), rounding_mode="trunc")
        return work if async_op else None

    _everywhere(patches, c10d, "all_reduce", all_reduce)


def _coalescing(patches: Patches, c10d: Any) -> None:
    """Run collectives one by one with gloo that NCCL launches together."""

    @contextlib.contextmanager
    def one_by_one(group: object = None, device: object = None, async_ops: bool | None = False) -> Iterator[object]:
        yield c10d._CoalescingManager()

    _everywhere(patches, c10d, "_coalescing_manager", one_by_one)


def _wrappers(patches: Patches, target: str) -> None:
    """Let DDP and FSDP wrap models on the target: they require cards for a model that is on one, and compare its device with
    the one given."""
    parallel: Any = torch.nn.parallel.DistributedDataParallel
    make = parallel.__init__

    @functools.wraps(make)
    def __init__(
        self: object,
        module: torch.nn.Module,
        device_ids: object = None,
        output_device: object = None,
        *args: object,
        **kwargs: object,
    ) -> None:
        make(self, module, None, None, *args, **kwargs)

    patches.replace(parallel, "__init__", __init__)
    fsdp: Any = sys.modules.get("torch.distributed.fsdp._init_utils")
    if fsdp is not None:
        given = fsdp._get_device_from_device_id
        patches.replace(fsdp, "_check_module_states_for_sync_module_states", lambda states: None)
        patches.replace(fsdp, given.__name__, lambda *args, **kwargs: given(*args, **kwargs) and torch.device(target))


def _shown(wanted: object) -> str:
    """Return the backend that `get_backend` reports for a group: the CUDA part of ``cpu:gloo,cuda:nccl``."""
    parts = _parts(wanted)
    return parts.get("cuda", "nccl" if wanted is None or parts else str(wanted).lower())


def _parts(wanted: object) -> dict[str, str]:
    """Return the backends by device; empty for a single name."""
    return dict(part.split(":") for part in str(wanted).lower().split(",") if ":" in part)


def _objects(patches: Patches, c10d: object, world_size: int) -> None:
    """Replace collectives on Python objects: every rank has this rank's objects."""

    def size(group: object) -> int:
        return int(dist.get_world_size(group))

    def all_gather_object(object_list: list[object], obj: object, group: object = None) -> None:
        _note_copies(obj, size(group))
        object_list[:] = [obj] * len(object_list)

    def gather_object(
        obj: object, object_gather_list: Any = None, dst: object = None, group: object = None, group_dst: object = None
    ) -> None:
        if object_gather_list is not None:
            _note_copies(obj, size(group))
            object_gather_list[:] = [obj] * size(group)

    def scatter_object_list(
        scatter_object_output_list: list[Any],
        scatter_object_input_list: Any = None,
        src: Any = None,
        group: Any = None,
        group_src: Any = None,
    ) -> None:
        if scatter_object_input_list is None:
            raise SimulationError(
                f"scatter_object_list on a rank that does not have the objects: simulate the rank that scatters. At "
                f"{location(caller())}"
            )
        scatter_object_output_list[0] = scatter_object_input_list[dist.get_rank(group)]

    def broadcast_object_list(
        object_list: list[Any], src: Any = None, group: Any = None, device: Any = None, group_src: Any = None
    ) -> None:
        has_them = (src or 0) == dist.get_rank() if group_src is None else group_src == dist.get_rank(group)
        if not has_them and any(each is None for each in object_list):
            raise SimulationError(
                f"broadcast_object_list on a rank that does not have the objects: simulate rank "
                f"{src if group_src is None else group_src}. At "
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


def _note_copies(obj: object, ranks: int) -> None:
    """Note where the program gathers what differs from rank to rank, as a part of its rows does."""
    if ranks > 1 and isinstance(obj, (list, tuple, dict)) and obj:
        note_copies(location(caller()))


def _checks(patches: Patches, c10d: object) -> None:
    """Skip DDP's comparison of parameter shapes across ranks, which is in C++ and by value: the ranks agree."""

    def agreed(*_: object, **__: object) -> None:
        """Do nothing: every rank has the same shapes."""

    patches.replace(dist, "_verify_params_across_processes", agreed)
    for owner in (dist.utils, torch.nn.parallel.distributed):
        patches.replace(owner, "_verify_param_shape_across_processes", agreed)
