"""The dispatch mode of a simulation: runs operators on shapes, answers queries for values, and books storages.

Every operator has a plan, made at its first call and found again by its identity, because a step of a large model is a
hundred thousand operators, half of them views:

- a view runs as it is: it touches no element, on any device;
- an operator that only writes into its first argument has nothing to do;
- a collective returns its outputs with a finished handle;
- everything else runs torch's meta kernel, and its result is booked. Many of these kernels are Python, so a result is cached
  by the geometry of the arguments and made again (`vgpu.sim.geometry`).

After an operator has run on shapes, its known values follow (`vgpu.sim.following`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import torch
from torch.utils._python_dispatch import _disable_current_modes

from vgpu.allocator.model import AllocatorSettings
from vgpu.allocator.reserving import Reserving
from vgpu.figures import PhaseReading
from vgpu.meters import operators
from vgpu.meters.ledger import DEVICE, HOST, NOWHERE
from vgpu.meters.meter import TorchMeter, finished_work, is_asked_for_shapes, made_of_others
from vgpu.sim import answers, geometry, host, reading, scratch
from vgpu.sim.by_value import ByValue, each_tensor
from vgpu.sim.errors import SimulationError, caller, location
from vgpu.sim.following import Following
from vgpu.sim.known import KnownValues

aten = torch.ops.aten

#: How an operator is run: (operator, arguments, keyword arguments) -> result.
Plan = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

_META = torch.device("meta")
_NOTHING: dict[str, Any] = {}


class Card(Protocol):
    """The card's part in each operator."""

    @property
    def compute_capability(self) -> tuple[int, int]:
        """The compute capability, by which torch picks kernels."""

    @property
    def allocator(self) -> AllocatorSettings:
        """The allocator's options, known by the first phase's end."""

    def run(self, plan: Plan, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator by ``plan``."""

    def mapped(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return an operator's arguments with the device that torch sees."""

    def memory(self) -> int:
        """Return the memory of an operator's result on meta."""

    def placement(self) -> int:
        """Return the memory of a tensor that is requested on meta."""

    def decided(self, place: str) -> None:
        """Record that an optimizer decides by unknown values."""


class NoCard:
    """The `Card` until one is attached (`vgpu.attaching.attached`): operators run as they are, and what is on meta is on the
    device."""

    allocator = AllocatorSettings()
    compute_capability = (9, 0)

    def run(self, plan: Plan, func: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        return plan(func, args, kwargs)

    def mapped(self, kwargs: dict[str, object]) -> dict[str, Any]:
        return kwargs

    def memory(self) -> int:
        return DEVICE

    placement = memory

    def decided(self, place: str) -> None:
        """Record nothing."""


class SimulationMode(TorchMeter):
    """The operators of one rank. Entered by `vgpu.sim.Simulation`; see `TorchMeter` for what is counted."""

    def __init__(self) -> None:
        super().__init__("meta", trace=True)
        assert self.ledger.trace is not None
        self.card: Card = NoCard()
        self.reserving = Reserving(self.ledger.trace, self.card.allocator)
        self.attention: dict[str, int] = {}  #: calls of this phase by kernel
        self._launched_before = 0  #: operators launched before this phase
        self.ledger.streams.launches = lambda: self._launched_before + self.op_launches
        self._plans: dict[Any, Plan] = {}
        self._results = geometry.ResultCache()
        #: Kernels whose scratch memory is booked (`vgpu.sim.scratch`).
        self.scratch: dict[Any, scratch.Rule] = {}
        self.known = KnownValues(self.is_ghost)
        self.following = Following(self.known)
        self.questions = answers.Questions()
        self._by_value = ByValue(self)
        self._reading = contextlib.ExitStack()
        self._special: dict[Any, Plan] = {
            aten._local_scalar_dense.default: self._by_value.item,
            aten.item.default: self._by_value.item,  # seen whole where no autograd decomposes it: in a DTensor's own code
            aten.is_nonzero.default: lambda *call: bool(self._by_value.item(*call)),
            aten._to_copy.default: self._to_copy,
            aten.copy_.default: self._copy_,
            aten.set_.source_Storage: self._set_,
            aten.set_.source_Storage_storage_offset: self._set_,
            aten.index.Tensor: self._by_value.index,
            aten.masked_select.default: self._by_value.masked_select,
            aten.is_pinned.default: self._is_pinned,
            aten._pin_memory.default: self._pin_memory,
        }

    def __enter__(self) -> SimulationMode:
        super().__enter__()
        self._reading.enter_context(reading.adapted(self.known, self.following, self._is_ghost_storage))
        return self

    def __exit__(self, *exc: object) -> None:
        self._reading.close()
        super().__exit__(*exc)

    def begin(self) -> None:
        """Begin a phase, also for the reads of values and the reserved memory."""
        self._launched_before += self.op_launches
        super().begin()
        self.questions.begin()
        self.reserving.begin()
        self.attention = {}

    def end(self) -> PhaseReading:
        """Return the phase's reading, with the reserved peaks and the smallest card in bytes."""
        reading = super().end()
        self.follow_allocator()
        reading.reserved_peak_bytes = self.reserving.reserved_peak_bytes
        reading.late_reserved_peak_bytes = self.reserving.late_reserved_peak_bytes
        reading.smallest_card_bytes = self.reserving.needed_bytes
        reading.attention = dict(sorted(self.attention.items()))
        return reading

    def count_attention(self, kernel: str) -> None:
        """Count a call of scaled dot product attention."""
        self.attention[kernel] = self.attention.get(kernel, 0) + 1

    def follow_allocator(self) -> None:
        """Bring `reserving` up to date."""
        if self.card.allocator != self.reserving.settings:
            assert self.ledger.trace is not None
            self.reserving = Reserving(self.ledger.trace, self.card.allocator)
        self.reserving.follow()

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave the operators of the block uncounted: they are the simulation's own. Nothing that they make may be kept."""
        launches, moved, copied = self.op_launches, self.moved_bytes, self.copied_bytes
        moves = len(self.ledger.moves)
        try:
            yield
        finally:
            self.op_launches, self.moved_bytes, self.copied_bytes = launches, moved, copied
            del self.ledger.moves[moves:]

    def memory_of(self, tensor: torch.Tensor) -> int:
        """Return the memory that a tensor's bytes are booked in."""
        return self.card.memory() if tensor.device.type in ("meta", "cuda") else HOST

    def decided(self, place: str) -> None:
        """Report the place of an optimizer's decision by unknown values."""
        self.card.decided(place)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Return False: nothing is compiled here, and torch's guard against that would cost a fifth of every operator."""
        return False

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        if types and made_of_others(types):
            return NotImplemented  # its own class calls operators on those
        if is_asked_for_shapes(types):
            return func(*args, **self.card.mapped(kwargs or _NOTHING))
        self.working()
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = self._counting(
                self._with_scratch(self._plan(func), func), operators.traits(func)
            )
        return self.card.run(plan, func, args, kwargs or _NOTHING)

    # -- plans -------------------------------------------------------------------------------------------------------

    def _with_scratch(self, plan: Plan, operator: object) -> Plan:
        """Return the plan, with the memory that the operator's kernel takes in addition to its results."""
        rule = self.scratch.get(operator)
        if rule is None:
            return plan

        def with_scratch(func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
            out = plan(func, args, kwargs)
            if self.memory_of(args[0]) == DEVICE:
                for together in rule(*args, **kwargs):
                    self.ledger.workspace(*together)
            return out

        return with_scratch

    def _counting(self, plan: Plan, what: operators.Traits) -> Plan:
        """Return the plan, with the bytes that the operator's kernel moves."""
        if what.is_composite or not what.moves or plan == self._copy_:
            return plan

        def counted(func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
            out = plan(func, args, kwargs)
            self.count_moved(operators.moved(what, args, kwargs, out))
            return out

        return counted

    def _plan(self, func: torch._ops.OpOverload) -> Plan:
        if func in self._special:
            return self._special[func]
        what = operators.traits(func)
        if what.kind:
            return self._answer_collective
        if what.functional is not None:
            return self._answer_functional
        if what.is_composite:
            return self.decomposed
        arguments = func._schema.arguments
        if not what.returns_storage and (not what.launches or torch.Tag.inplace_view in func.tags):
            return self._view
        by_value = self._by_value.plan(func)
        if by_value is not None:
            return by_value
        if not what.returns_storage and _writes_first_argument_only(func):
            return self._write
        if not any("Tensor" in str(argument.type) for argument in arguments):
            return self._make if any(argument.name == "device" for argument in arguments) else self._view
        return self.compute_known if geometry.is_pure(func) else self._compute_and_write

    def _view(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        """Run an operator that touches no element."""
        if args and type(args[0]) is torch.nn.Parameter and args[0].is_meta:
            self.known.forget(args[0])  # a weight is unknown, and so is each view of it
        return func._op(*args, **kwargs) if kwargs else func._op(*args)  # what calling ``func`` does, a frame less

    def _write(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        """Run an in-place operator."""
        target = args[0]
        self.op_launches += 1
        if target.is_meta:
            self.following.wrote(func, args, kwargs)
            return target
        others = [t for t in operators.tensors_in(args[1:]) if t.is_meta or self.is_ghost(t)]
        if others or self.is_ghost(target):
            self._become_ghost(target)
            return target
        return func(*args, **kwargs)

    def _make(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator that makes a new tensor from no other, or from the shape of one."""
        device = kwargs.get("device")
        what = operators.traits(func)
        if device is not None and device.type == "meta":
            out = func(*args, **kwargs)
            self.op_launches += what.launches
            self.ledger.add(out.untyped_storage(), self.card.placement())
            self.following.made(func, args, kwargs, out)
            return out
        shape = func(*args, **{**kwargs, "device": _META, "pin_memory": None})
        if host.keeps_contents(shape):
            out = func(*args, **kwargs)
            self.count(what, args, kwargs, out)
            return out
        self.op_launches += what.launches
        return self._as_ghost(shape)

    def _compute(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Run any other operator."""
        first = args[0] if args else None
        what = operators.traits(func)
        if not (isinstance(first, torch.Tensor) and first.is_meta):
            tensors = [*operators.tensors_in(args), *operators.tensors_in(tuple(kwargs.values()))]
            if not any(t.is_meta for t in tensors):
                return self._compute_on_host(func, what, tensors, args, kwargs)
        out = _of_shapes(func, args, kwargs)
        if "device" in kwargs and isinstance(out, torch.Tensor):
            self.ledger.add(out.untyped_storage(), self.card.placement())
        self.count(what, args, kwargs, out)
        return out

    def _compute_and_write(
        self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        out = self._compute(func, args, kwargs)
        self.following.did(func, args, kwargs, out)
        return out

    def compute_known(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Run an operator as `compute_again`, and follow its known values."""
        out = self.compute_again(func, args, kwargs)
        self.following.computed(func, args, kwargs, out)
        return out

    def compute_again(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operator as `_compute` does, with its result cached by its arguments' geometry."""
        device = kwargs.get("device")
        if device is not None and device.type != "meta" and isinstance(args[0], torch.Tensor) and args[0].is_meta:
            return self._make(func, args, kwargs)  # in host memory, with the shape of a tensor on the device
        key = geometry.key(func, args, kwargs)
        if key is None:
            return self._compute(func, args, kwargs)
        known = self._results.lookup(key)
        if known is None:
            flops = self.flops
            out = self._compute(func, args, kwargs)
            self._results.store(key, operators.tensors_in((args, tuple(kwargs.values()))), out, self.flops - flops)
            return out
        out, flops = known
        self.op_launches += operators.traits(func).launches
        self.flops += flops
        if "device" in kwargs:
            self.ledger.add(out.untyped_storage(), self.card.placement())
        else:
            self.register(out)
        return out

    def _compute_on_host(
        self,
        func: torch._ops.OpOverload,
        what: operators.Traits,
        tensors: list[torch.Tensor],
        args: tuple[object, ...],
        kwargs: dict[str, Any],
    ) -> object:
        device = kwargs.get("device")
        if not any(self.is_ghost(t) for t in tensors):
            out = func(*args, **kwargs)
            if device is not None and device.type == "meta":
                self.ledger.add(out.untyped_storage(), self.card.placement())
            self.count(what, args, kwargs, out)
            return out
        stand_ins = {id(t): host.stand_in(t) for t in tensors}
        inputs = {name: each_tensor(value, lambda t: stand_ins[id(t)]) for name, value in kwargs.items()}
        if device is not None:
            inputs["device"] = _META
        out = _of_shapes(func, each_tensor(args, lambda t: stand_ins[id(t)]), inputs)
        self.op_launches += what.launches
        originals = {id(stand_ins[id(t)]): t for t in tensors}

        def on_host(value: torch.Tensor) -> torch.Tensor:
            if id(value) in originals:
                self._become_ghost(originals[id(value)])
                return originals[id(value)]
            if device is not None and device.type == "meta":
                self.ledger.add(value.untyped_storage(), self.card.placement())
                return value
            return self._as_ghost(value)

        return each_tensor(out, on_host)

    def _answer_collective(
        self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        what = operators.traits(func)
        self.count_collective(what, args)
        returns = func._schema.returns
        if not returns:
            return None
        outputs = args[0] if len(returns) > 1 else None
        held = list(operators.tensors_in(outputs)) if outputs is not None else []
        for tensor in self.following.communicated(func, args):
            if not tensor.is_meta:
                self._become_ghost(tensor)
        work = finished_work(held)
        return work if outputs is None else (outputs, work)

    def _answer_functional(
        self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        out = self._compute_and_write(func, args, kwargs)
        self.count_functional(operators.traits(func), args, out)
        return out

    # -- operators with a special plan --------------------------------------------------------------------------------

    def waits_for_device(self) -> None:
        """Record that the host reads a result of the current stream, or waits for a copy on it."""
        self.ledger.streams.finish_stream()

    def copied_unknown(self, target: torch.Tensor, source: torch.Tensor) -> bool:
        """Count a copy on the device, of values that are unknown and stay so, and return True; return False for any other
        copy. May be called outside an operator: a partition is gathered, and taken apart, by as many copies as there are
        ranks."""
        known = self.known
        if not (target.is_meta and source.is_meta) or known.maybe(source) or known.maybe(target):
            return False
        if target.shape != source.shape:
            return False
        self.op_launches += 1
        if self.memory_of(target) == DEVICE:
            self.moved_bytes += operators.nbytes_of(source) + operators.nbytes_of(target)
        return True

    def _copy_(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        target, source = args[0], args[1]
        if self.copied_unknown(target, source):
            return target
        self.op_launches += 1
        self._copy_between(func, args, kwargs)
        if target.shape != source.shape:
            torch.broadcast_shapes(target.shape, source.shape)
        self.count_moved((source, target))
        return target

    def _copy_between(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> None:
        """Run a copy of known values, and of the host's."""
        target, source = args[0], args[1]
        non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
        if target.is_meta != source.is_meta and not non_blocking:
            self.waits_for_device()  # `copy_kernel_cuda` in ``aten/src/ATen/native/cuda/Copy.cu``
        if target.is_meta:
            self.following.wrote(func, args, kwargs)
            return
        contents = self.known.contents(source)
        if contents is not None and not self.is_ghost(target):
            func(target, contents, **kwargs)
            return
        self._become_ghost(target)

    def _set_(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        """Give a tensor another storage, or another part of it. Contents are those of the storage. A storage on meta that no
        operator made is the program's own, as of a checkpoint that is loaded lazily: it has no bytes on a GPU either."""
        target = args[0]
        if target.is_meta:
            if self.ledger.find(args[1]) is None:
                func(*args, **kwargs)  # makes an empty one as large as it has to be
                self.ledger.add(args[1], NOWHERE)
            return self._compute_and_write(func, args, kwargs)
        out = func(*args, **kwargs)
        self.count(operators.traits(func), args, kwargs, out)
        if self.is_ghost(target):
            _make_healthy(target)
        return out

    def _to_copy(self, func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        source = args[0]
        device = kwargs.get("device") or source.device
        if source.is_meta and device.type == "meta":
            return self.compute_known(func, args, kwargs)
        self.op_launches += 1
        if not kwargs.get("non_blocking"):
            self.waits_for_device()
        contents = self.known.contents(source)
        if device.type == "meta":
            out = func(*args, **kwargs)
            self.ledger.add(out.untyped_storage(), self.card.placement())
            if not isinstance(source, torch.nn.Parameter):
                self.following.computed(func, args, kwargs, out)
        elif source.is_meta and contents is not None:
            out = func(contents, **{**kwargs, "pin_memory": None})
            self.ledger.add(out.untyped_storage(), HOST)
        elif source.is_meta or self.is_ghost(source):
            shape = source if source.is_meta else host.stand_in(source)
            out = self._as_ghost(func(shape, **{**kwargs, "device": _META, "pin_memory": None}))
            taken = answers.remembered(source)
            if taken is not None and out.dtype == torch.bool:
                answers.remember(out, taken)
        else:
            out = func(*args, **kwargs)
            self.ledger.add(out.untyped_storage(), HOST)
        if out.device != source.device and out.dtype == source.dtype:
            self.ledger.moved(out.untyped_storage(), source.untyped_storage())
        return out  # type: ignore[no-any-return]

    def _is_pinned(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        return False

    def _pin_memory(
        self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> torch.Tensor:
        return self.pinned(args[0])

    # -- host memory without contents --------------------------------------------------------------------------------

    def pinned(self, source: torch.Tensor) -> torch.Tensor:
        """Return a page-locked copy of a host tensor, with its contents if it has some and keeps them (see
        `host.keeps_contents`). May be called outside an operator."""
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            copy = self._as_ghost(host.stand_in(source))
            if host.keeps_contents(source) and not self.is_ghost(source):
                copy.copy_(source)
                entry = self.ledger.find(copy.untyped_storage())
                if entry is not None:  # an empty storage is not booked
                    entry.ghost = False
        return copy

    def is_ghost(self, tensor: torch.Tensor) -> bool:
        """Return True if the tensor's storage is in host memory without contents (`vgpu.sim.host`)."""
        return self._is_ghost_storage(tensor.untyped_storage())

    def _is_ghost_storage(self, storage: torch.UntypedStorage) -> bool:
        entry = self.ledger.find(storage)
        return entry is not None and entry.ghost

    def _as_ghost(self, shape: torch.Tensor) -> torch.Tensor:
        tensor = host.like(shape)
        self.ledger.add(tensor.untyped_storage(), HOST, ghost=True)
        _make_healthy(tensor)
        return tensor

    def _become_ghost(self, tensor: torch.Tensor) -> None:
        """Make the contents of the tensor unknown from now on."""
        storage = tensor.untyped_storage()
        self.ledger.add(storage, HOST, ghost=True)
        entry = self.ledger.find(storage)
        if entry is not None:
            entry.ghost = True
        _make_healthy(tensor)

    def forget(self, tensor: torch.Tensor) -> None:
        """Make the values of a tensor on the device or the host unknown. May be called outside an operator."""
        with _disable_current_modes(), torch._C.DisableTorchFunction():
            if tensor.is_meta:
                self.known.forget(tensor)
            else:
                self._become_ghost(tensor)


def _of_shapes(func: torch._ops.OpOverload, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator on meta. Raise SimulationError, which no program takes for an answer, if it has no kernel there."""
    try:
        return func(*args, **kwargs)
    except NotImplementedError as error:
        raise SimulationError(
            f"{func} has no meta kernel, so no shape: run it on the CPU or a GPU. At {location(caller())}"
        ) from error


def _make_healthy(ghost: torch.Tensor) -> None:
    """Fill unknown floats on the host with a healthy value: they may be read without an operator, as by ``numpy()``."""
    if ghost.is_floating_point() and ghost.untyped_storage().nbytes() < host.MAPPED_BYTES:
        ghost.fill_(answers.HEALTHY)


def _writes_first_argument_only(func: torch._ops.OpOverload) -> bool:
    schema = func._schema
    return (
        len(schema.returns) == 1
        and [position for position, _ in operators.traits(func).written] == [0]
        and str(schema.arguments[0].type) == "Tensor"
        and schema.name.endswith("_")
    )
