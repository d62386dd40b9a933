"""Turns one process into one rank of a large job."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
import torch.utils.checkpoint

from vgpu.allocator.model import AllocatorSettings
from vgpu.figures import PhaseReading
from vgpu.meters.ledger import StorageLedger
from vgpu.replacing import Patches, variables
from vgpu.sim import attention, composites, deepspeed_release, direct, scratch, streams
from vgpu.sim.attention_kernels import Call
from vgpu.sim.errors import SimulationError
from vgpu.sim.mode import SimulationMode
from vgpu.sim.store import SimulatedStore

#: The store of the group that was joined last: torch holds its C++ part alone, which has no methods without this one.
_held: list[SimulatedStore] = []


class Simulation:
    """Makes this process rank ``rank`` of ``world_size`` within the block; no operator computes anything. The rank has no
    card until `vgpu.attaching.attached` gives it one: until then its device is ``meta``.

    Enter it after the framework's modules are imported (with ``DS_ACCELERATOR=cpu`` for DeepSpeed) and before the framework
    does anything: before ``init_distributed``, before a model is built. One simulation per process at a time. Inside, build
    the model on whatever device the job would; large CPU tensors cost nothing (see `vgpu.sim.host`).

    ``kernels`` selects the kernels to count where torch chooses by the device: ``gpu``, or ``cpu`` to compare with ``cpu``
    mode to the byte.
    """

    device = "meta"

    def __init__(
        self,
        rank: int = 0,
        world_size: int = 1,
        *,
        ranks_per_node: int = 8,
        kernels: str = "gpu",
    ) -> None:
        if not 0 <= rank < world_size:
            raise SimulationError(f"rank {rank} of {world_size} does not exist: ranks count from 0")
        self.rank = rank
        self.world_size = world_size
        self.ranks_per_node = min(ranks_per_node, world_size)
        self.kernels = kernels
        self.mode = SimulationMode()
        self.meter = SimulationMeter(self.mode)
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Simulation:
        with contextlib.ExitStack() as stack:
            stack.enter_context(environment(self.rank, self.world_size, self.ranks_per_node))
            stack.enter_context(process_group(self.rank, self.world_size))
            stack.enter_context(_attention(self.kernels, self.mode))
            if self.kernels == "gpu":
                stack.enter_context(composites.as_on_gpu())
                self.mode.scratch = scratch.ON_GPU
            stack.enter_context(_generators())
            stack.enter_context(_moved_parameters(self.mode))
            if "deepspeed" in sys.modules:
                stack.enter_context(deepspeed_release.ranks_agree())
            stack.enter_context(streams.followed(self.mode.ledger))
            stack.enter_context(self.mode)
            stack.enter_context(direct.answered(self.mode))
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *exc: Any) -> bool | None:
        return self._exit.__exit__(*exc)


class SimulationMeter:
    """Implements `dsregress.probe.framework.Meter` on the mode of a running simulation."""

    def __init__(self, mode: SimulationMode) -> None:
        self._mode = mode

    @property
    def ledger(self) -> StorageLedger:
        """The ledger, with its trace."""
        return self._mode.ledger

    def allocator(self) -> AllocatorSettings:
        """Return the options of the allocator that is modelled."""
        return self._mode.reserving.settings

    @property
    def working(self) -> Callable[[], None]:
        """The function that is called with every operator, as a sign of life."""
        return self._mode.working

    @working.setter
    def working(self, working: Callable[[], None]) -> None:
        self._mode.working = working

    def __enter__(self) -> SimulationMeter:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        self._mode.adopt(tensors)

    def begin(self) -> None:
        self._mode.begin()

    def end(self) -> PhaseReading:
        return self._mode.end()


def environment(rank: int, world_size: int, ranks_per_node: int) -> AbstractContextManager[None]:
    """Set the variables that a launcher would set, within the block."""
    local = rank % ranks_per_node
    values = {
        "RANK": rank, "WORLD_SIZE": world_size, "LOCAL_RANK": local, "LOCAL_SIZE": ranks_per_node,
        "LOCAL_WORLD_SIZE": ranks_per_node, "CROSS_RANK": rank // ranks_per_node,
        "CROSS_SIZE": -(-world_size // ranks_per_node), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500,
    }  # fmt: skip
    return variables({name: str(value) for name, value in values.items()})


@contextlib.contextmanager
def process_group(rank: int, world_size: int) -> Iterator[None]:
    """Join a fake group (`join_fake_group`) within the block. Raise SimulationError if a process group exists already."""
    if dist.is_initialized():
        raise SimulationError("a process group exists already: enter the simulation before anything joins one")
    join_fake_group(dist.init_process_group, rank, world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def join_fake_group(init: Callable[..., None], rank: int, world_size: int) -> None:
    """Join torch's ``fake`` process group: it has the ranks and the groups, and its collectives do nothing. ``init`` is
    torch's own ``init_process_group``."""
    from torch.testing._internal.distributed import fake_pg  # noqa: F401  (registers the backend)

    store = SimulatedStore(world_size)
    _held[:] = [store]
    init("fake", rank=rank, world_size=world_size, store=store)


@contextlib.contextmanager
def _attention(kernels: str, mode: SimulationMode) -> Iterator[None]:
    functional: Any = torch.nn.functional
    original = functional.scaled_dot_product_attention

    def counted(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        call = Call(
            query=query, key=key, value=value, mask=attn_mask, dropout=dropout_p, is_causal=is_causal, scale=scale,
            enable_gqa=enable_gqa,
        )  # fmt: skip
        out, choice = attention.on_gpu(call, mode.card.compute_capability)
        mode.count_attention(str(choice))
        return out

    chosen: Any = {"gpu": counted, "cpu": attention.on_cpu}[kernels]

    def scaled_dot_product_attention(query: torch.Tensor, *args: Any, **kwargs: Any) -> object:
        return (chosen if query.is_meta else original)(query, *args, **kwargs)

    with Patches("attention as a GPU computes it") as patches:
        patches.replace(functional, "scaled_dot_product_attention", scaled_dot_product_attention)
        yield


@contextlib.contextmanager
def _generators() -> Iterator[None]:
    """Skip the meta device's generator within the block: it has no state that recomputation must restore. Newer releases of
    torch know; those of 2.5 and before look for a generator, and those of 2.4 and before for the device's module."""
    random, checkpoint = torch.random, torch.utils.checkpoint
    fork_rng: Any = random.fork_rng
    module_of: Any = checkpoint._get_device_module

    @contextlib.contextmanager
    def forked(*args: object, **kwargs: object) -> Iterator[None]:
        with contextlib.nullcontext() if kwargs.get("device_type") == "meta" else fork_rng(*args, **kwargs):
            yield

    def module(device: str = "cuda") -> Any:
        return torch.device("meta") if device == "meta" else module_of(device)

    with Patches("meta has no generator") as patches:
        patches.replace(random, "fork_rng", forked)
        patches.replace(checkpoint, "_get_device_module", module)
        yield


def _is_meta(tensor: torch.Tensor) -> bool:
    """Return True if torch has the tensor on meta, whatever device it shows to a program."""
    with torch._C.DisableTorchFunction():
        return bool(tensor.is_meta)


@contextlib.contextmanager
def _moved_parameters(mode: SimulationMode) -> Iterator[None]:
    """Keep a module's Parameter objects, which optimizers hold, when it moves from CPU to its accelerator, within the block.
    torch takes meta for another kind of tensor and would give the module new ones, so a move is made beneath the object."""
    original = torch.nn.Module._apply

    def moves(parameter: torch.Tensor, fn: Any) -> bool:
        if parameter is None or _is_meta(parameter):
            return False
        data = parameter.data
        with mode.uncounted():  # columns of a weight, as tensor parallelism cuts them, are in no line
            return _is_meta(fn((data.view(-1) if data.is_contiguous() else data)[:0]))

    def _apply(self: Any, fn: Any, recurse: bool = True) -> object:
        for parameter in self._parameters.values():
            if moves(parameter, fn):
                with torch.no_grad():
                    moved = torch.nn.Parameter(fn(parameter), parameter.requires_grad)
                torch._C._swap_tensor_impl(parameter, moved)
        return original(self, fn, recurse)

    with Patches("modules move without memory") as patches:
        patches.replace(torch.nn.Module, "_apply", _apply)
        yield
