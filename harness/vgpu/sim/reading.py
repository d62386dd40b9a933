"""Patches for reads of values that bypass torch's dispatcher, for the time of a simulation.

``torch.tensor(data, device="meta")`` never looks at its data, ``tolist()`` and ``numpy()`` read memory as it is, the options
of a reduction are opaque to the dispatcher, and a storage is resized, and made for a copy, without an operator.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from vgpu.meters import operators
from vgpu.replacing import Patches
from vgpu.scripted import set_builtin
from vgpu.sim import answers, host
from vgpu.sim.errors import SimulationError, caller, location
from vgpu.sim.following import Following
from vgpu.sim.known import KnownValues


@contextlib.contextmanager
def adapted(known: KnownValues, following: Following, is_ghost: Callable[[Any], bool]) -> Iterator[None]:
    """Take values from ``known`` that torch would read from memory, within the block. ``is_ghost`` returns True if the
    contents of a host storage are unknown."""
    with Patches("known values are read without memory") as patches:

        def wrap(owner: object, name: str, wrapper: Callable[[Any], Any]) -> None:
            set_builtin(patches, owner, name, wrapper(getattr(owner, name)))

        wrap(torch, "tensor", lambda original: _from_data(original, known))
        wrap(torch, "as_tensor", lambda original: _from_data(original, known))
        # DeepSpeed's zero.Init puts back what it found when it was imported.
        if (zero := sys.modules.get("deepspeed.runtime.zero.partition_parameters")) is not None:
            patches.replace(zero, "_orig_torch_tensor", torch.tensor)
        wrap(torch.Tensor, "new_tensor", lambda original: _new_tensor(original, known))
        for name in ("tolist", "numpy", "__array__"):
            wrap(torch.Tensor, name, lambda original: _reads(original, known))
        wrap(torch.Tensor, "__format__", _format)
        wrap(torch.UntypedStorage, "resize_", lambda original: _resize(original, known))
        wrap(torch.UntypedStorage, "clone", lambda original: _clone(original, is_ghost))
        for name in ("_share_fd_cpu_", "_share_filename_cpu_"):
            wrap(torch.UntypedStorage, name, lambda original: _share(original, is_ghost))
        for name in dir(dist.ProcessGroup):
            if "reduce" in name and not name.startswith("__"):
                wrap(dist.ProcessGroup, name, lambda original: _reduce(original, following))
        yield


def _from_data(original: Any, known: KnownValues) -> object:
    def tensor(data: object, *args: object, **kwargs: object) -> Any:
        out = original(_asked(data) if isinstance(data, (list, tuple)) else data, *args, **kwargs)
        if isinstance(out, torch.Tensor) and out.is_meta and not isinstance(data, torch.Tensor):
            _learn(out, data, known, original)
        return out

    return tensor


def _asked(data: object) -> object:
    """Return the lists with numbers in place of the tensors in them, which torch would read past every mode."""
    if isinstance(data, (list, tuple)):
        return [_asked(value) for value in data]
    if not isinstance(data, torch.Tensor) or data.dim():
        return data
    with _unseen():
        is_known = not data.is_meta
    return data if is_known else data.item()


def _new_tensor(original: Any, known: KnownValues) -> object:
    def new_tensor(self: object, data: object, *args: object, **kwargs: object) -> object:
        out = original(self, data, *args, **kwargs)
        if out.is_meta and not isinstance(data, torch.Tensor):
            _learn(out, data, known, torch.tensor)
        return out

    return new_tensor


def _learn(out: torch.Tensor, data: object, known: KnownValues, make: Any) -> None:
    if [*operators.tensors_in(data)]:
        return  # the value of each is read: the answers are not contents
    with _unseen():
        known.learn(out, make(data, dtype=out.dtype, device="cpu"))


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Hide the operators of the block, which are the simulation's own, from every mode."""
    with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():  # type: ignore[attr-defined]
        yield


def _reads(original: Any, known: KnownValues) -> object:
    def read(self: Any, *args: object, **kwargs: object) -> Any:
        if hasattr(type(self), "__tensor_flatten__"):  # made of others, which answer
            return original(self, *args, **kwargs)
        with _unseen():
            unknown = not self.is_floating_point() and not self.is_complex() and known.contents(self) is None
        if unknown and answers.is_image(self):
            if not self.is_meta:
                with _unseen():
                    self.zero_()
        elif unknown:
            raise SimulationError(
                f"unknown {str(self.dtype).removeprefix('torch.')}{list(self.shape)} read; sim has shapes "
                f"only: run it on the CPU or a GPU. At {location(caller())}"
            )
        return original(self, *args, **kwargs)

    return read


def _format(original: Any) -> object:
    def __format__(self: Any, spec: str) -> str:
        if spec and self.is_meta and not self.dim():
            return format(self.item(), spec)
        return original(self, spec)  # type: ignore[no-any-return]

    return __format__


def _resize(original: Any, known: KnownValues) -> object:
    def resize_(storage: object, *args: object) -> object:
        known.forget_storage(storage)
        return original(storage, *args)

    return resize_


def _clone(original: Any, is_ghost: Callable[[Any], bool]) -> object:
    """Return ``clone`` of storages, by which ``copy.deepcopy`` copies a tensor of the host: gigabytes without contents stay
    untouched."""

    def clone(storage: Any) -> object:
        if not is_ghost(storage):
            return original(storage)
        with _unseen():
            pages = host.pages(storage.nbytes())
        return pages.copy_(storage)

    return clone


def _share(original: Any, is_ghost: Callable[[Any], bool]) -> object:
    """Return ``share`` of storages, which raises SimulationError for gigabytes without contents: sharing copies a storage
    into memory that another process sees, which would make them real, and sim does not follow the other process. The workers
    of a data loader are forked, and may share their batches."""
    simulating = os.getpid()

    def share(storage: Any, *args: object, **kwargs: object) -> Any:
        if os.getpid() == simulating and storage.nbytes() >= host.MAPPED_BYTES and is_ghost(storage):
            raise SimulationError(
                "host memory shared with another process, which sim does not follow: run it on the CPU or a GPU. At "
                f"{location(caller())}"
            )
        return original(storage, *args, **kwargs)

    return share


def _reduce(original: Any, following: Following) -> object:
    def reduce(self: object, *args: object, **kwargs: object) -> object:
        following.reduction = dist.ReduceOp.SUM  # the default of every method
        for value in (*args, *kwargs.values()):
            if isinstance(value, (dist.ReduceOp, type(dist.ReduceOp.SUM))):
                following.reduction = value
            elif hasattr(value, "reduceOp"):
                following.reduction = value.reduceOp
        try:
            return original(self, *args, **kwargs)
        finally:
            following.reduction = None

    return reduce
