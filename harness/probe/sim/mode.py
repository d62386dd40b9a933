"""The dispatch mode of a simulation: runs operators on shapes, answers queries for values, and books storages.

Every operator has a plan, made at its first call and found again by its identity, because a step of a large model
is a hundred thousand operators, half of them views:

- a view runs as it is: it touches no element, on any device;
- an operator that only writes into its first argument has nothing to do;
- a collective returns its outputs with a finished handle;
- everything else runs torch's meta kernel, and what it returns is booked. Many of these kernels are Python, so what one
  made of the geometry of its arguments is remembered and made again (`harness.probe.sim.geometry`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from harness.probe.allocator.model import AllocatorSettings
from harness.probe.allocator.reserving import Reserving
from harness.probe.border.wire import PhaseReading
from harness.probe.meters import operators
from harness.probe.meters.ledger import DEVICE, HOST, NOWHERE
from harness.probe.meters.meter import TorchMeter, finished_work
from harness.probe.sim import answers, geometry, host
from harness.probe.sim.errors import SimulationError, caller, location, spells

aten = torch.ops.aten

#: How an operator is run: (operator, arguments, keyword arguments) -> result.
Plan = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

_META = torch.device("meta")
_NOTHING: dict[str, Any] = {}


class SimulationMode(TorchMeter):
    """One rank's operators. Entered by `harness.probe.sim.Simulation`; see `TorchMeter` for what is counted."""

    def __init__(self, allocator: AllocatorSettings) -> None:
        super().__init__("meta", trace=True)
        assert self.ledger.trace is not None
        self.reserving = Reserving(self.ledger.trace, allocator)
        self._plans: dict[Any, Plan] = {}
        self._results = geometry.ResultCache()
        self._says_meta: dict[tuple[int, int], tuple[bool, CodeType]] = {}
        self._special: dict[Any, Plan] = {
            aten._local_scalar_dense.default: self._item,
            aten.equal.default: self._equal,
            aten._to_copy.default: self._to_copy,
            aten.copy_.default: self._copy_,
            **{getattr(aten, name).Scalar: self._comparison for name in answers.COMPARISONS},
            aten.is_pinned.default: self._is_pinned,
            aten._pin_memory.default: self._pin_memory,
        }

    def begin(self) -> None:
        super().begin()
        self.reserving.begin()

    def end(self) -> PhaseReading:
        reading = super().end()
        self.reserving.follow()
        reading.reserved_peak_bytes = self.reserving.reserved_peak_bytes
        reading.smallest_card_bytes = self.reserving.needed_bytes
        return reading

    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Operators inside are the simulation's own and do not count. Nothing that they make may be kept."""
        launches, moves = self.op_launches, len(self.ledger.moves)
        yield
        self.op_launches = launches
        del self.ledger.moves[moves:]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled here, and torch's guard against that would cost a fifth of every operator."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = self._plan(func)
        return plan(func, args, kwargs or _NOTHING)

    # -- plans -------------------------------------------------------------------------------------------------------

    def _plan(self, func: Any) -> Plan:
        if func in self._special:
            return self._special[func]
        what = operators.traits(func)
        if what.kind:
            return self._answer_collective
        arguments = func._schema.arguments
        if not what.returns_storage and not what.launches:
            return _run
        if not what.returns_storage and _writes_first_argument_only(func):
            return self._write
        if not any("Tensor" in str(argument.type) for argument in arguments):
            return self._make if any(argument.name == "device" for argument in arguments) else _run
        return self._compute_again if geometry.is_pure(func) else self._compute

    def _write(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An in-place operator."""
        target = args[0]
        self.op_launches += 1
        if target.is_meta:
            return target
        others = [t for t in operators.tensors_in(args[1:]) if t.is_meta or self._is_ghost(t)]
        if others or self._is_ghost(target):
            self._become_ghost(target)
            return target
        return func(*args, **kwargs)

    def _make(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator that makes a new tensor from no other."""
        device = kwargs.get("device")
        what = operators.traits(func)
        if device is not None and device.type == "meta":
            out = func(*args, **kwargs)
            self.op_launches += what.launches
            self.ledger.add(out.untyped_storage(), self._meant(kwargs))
            return out
        shape = func(*args, **{**kwargs, "device": _META, "pin_memory": None})
        if shape.untyped_storage().nbytes() < host.LARGE_BYTES:
            out = func(*args, **kwargs)
            self.count(what, args, kwargs, out)
            return out
        self.op_launches += what.launches
        return self._as_ghost(shape)

    def _compute(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Any other operator."""
        first = args[0] if args else None
        what = operators.traits(func)
        if not (isinstance(first, torch.Tensor) and first.is_meta):
            tensors = [*operators.tensors_in(args), *operators.tensors_in(tuple(kwargs.values()))]
            if not any(t.is_meta for t in tensors):
                return self._compute_on_host(func, what, tensors, args, kwargs)
        try:
            out = func(*args, **kwargs)
        except NotImplementedError as error:
            raise SimulationError(
                f"{func} has no meta kernel, so no shape: run the cell on cpu or cuda. At {location(caller())}"
            ) from error
        if "device" in kwargs and isinstance(out, torch.Tensor):
            self.ledger.add(out.untyped_storage(), self._meant(kwargs))
        self.count(what, args, kwargs, out)
        return out

    def _compute_again(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `_compute`, for an operator whose result may be cached by its arguments' geometry."""
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
            self.ledger.add(out.untyped_storage(), self._meant(kwargs))
        else:
            self.register(out)
        return out

    def _compute_on_host(
        self,
        func: Any,
        what: operators.Traits,
        tensors: list[torch.Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        device = kwargs.get("device")
        if not any(self._is_ghost(t) for t in tensors):
            out = func(*args, **kwargs)
            if device is not None and device.type == "meta":
                self.ledger.add(out.untyped_storage(), self._meant(kwargs))
            self.count(what, args, kwargs, out)
            return out
        stand_ins = {id(t): host.stand_in(t) for t in tensors}
        inputs = {name: _each_tensor(value, lambda t: stand_ins[id(t)]) for name, value in kwargs.items()}
        if device is not None:
            inputs["device"] = _META
        out = func(*_each_tensor(args, lambda t: stand_ins[id(t)]), **inputs)
        self.op_launches += what.launches
        originals = {id(stand_ins[id(t)]): t for t in tensors}

        def on_host(value: torch.Tensor) -> torch.Tensor:
            if id(value) in originals:
                self._become_ghost(originals[id(value)])
                return originals[id(value)]
            if device is not None and device.type == "meta":
                self.ledger.add(value.untyped_storage(), self._meant(kwargs))
                return value
            return self._as_ghost(value)

        return _each_tensor(out, on_host)

    def _answer_collective(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        what = operators.traits(func)
        self.count_collective(what, args)
        returns = func._schema.returns
        if not returns:
            return None
        outputs = args[0] if len(returns) > 1 else None
        held = list(operators.tensors_in(outputs)) if outputs is not None else []
        for tensor in operators.tensors_in(args[0]):
            if not tensor.is_meta:
                self._become_ghost(tensor)
        work = finished_work(held)
        return work if outputs is None else (outputs, work)

    # -- operators with a special plan --------------------------------------------------------------------------------

    def _item(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor = args[0]
        return answers.scalar(tensor) if tensor.is_meta or self._is_ghost(tensor) else func(*args, **kwargs)

    def _equal(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if any(t.is_meta or self._is_ghost(t) for t in args[:2]):
            return answers.equal()
        return func(*args, **kwargs)

    def _comparison(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = self._compute_again(func, args, kwargs)
        if out.numel() == 1 and (out.is_meta or self._is_ghost(out)):
            answers.remember(out, func._schema.name.partition("::")[2], args[1])
        return out

    def _copy_(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target, source = args[0], args[1]
        self.op_launches += 1
        if not target.is_meta:
            if source.is_meta or self._is_ghost(source) or self._is_ghost(target):
                self._become_ghost(target)
            else:
                return func(*args, **kwargs)
        if target.shape != source.shape:
            torch.broadcast_shapes(target.shape, source.shape)
        return target

    def _to_copy(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source = args[0]
        device = kwargs.get("device") or source.device
        if source.is_meta and device.type == "meta":
            return self._compute_again(func, args, kwargs)
        self.op_launches += 1
        if device.type == "meta":
            out = func(*args, **kwargs)
            self.ledger.add(out.untyped_storage(), self._meant(kwargs))
        elif source.is_meta or self._is_ghost(source):
            shape = source if source.is_meta else host.stand_in(source)
            out = self._as_ghost(func(shape, **{**kwargs, "device": _META, "pin_memory": None}))
        else:
            out = func(*args, **kwargs)
            self.ledger.add(out.untyped_storage(), HOST)
        if out.device != source.device and out.dtype == source.dtype:
            self.ledger.moved(out.untyped_storage(), source.untyped_storage())
        return out  # type: ignore[no-any-return]

    def _is_pinned(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return False

    def _pin_memory(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
        return self._as_ghost(host.stand_in(args[0]))

    def _meant(self, kwargs: dict[str, Any]) -> int:
        """The memory of a tensor that is requested on the meta device: the accelerator's, unless the requesting statement
        spells the name ``meta`` out. Such a statement wants a tensor without storage on a GPU as well."""
        if "device" not in kwargs:
            return DEVICE
        frame = caller()
        if frame is None:
            return DEVICE
        where = (id(frame.f_code), frame.f_lasti)  # by its identity, as hashing code reads all of it
        known = self._says_meta.get(where)
        if known is None:
            # The code object is kept, so that its id is not reused.
            known = self._says_meta[where] = (spells(frame, "meta"), frame.f_code)
        return NOWHERE if known[0] else DEVICE

    # -- host memory without contents --------------------------------------------------------------------------------

    def _is_ghost(self, tensor: torch.Tensor) -> bool:
        entry = self.ledger.entries.get(tensor.untyped_storage()._cdata)
        return entry is not None and entry.ghost

    def _as_ghost(self, shape: torch.Tensor) -> torch.Tensor:
        tensor = host.like(shape)
        self.ledger.add(tensor.untyped_storage(), HOST, ghost=True)
        return tensor

    def _become_ghost(self, tensor: torch.Tensor) -> None:
        """From now on the contents of the tensor are unknown."""
        storage = tensor.untyped_storage()
        self.ledger.add(storage, HOST, ghost=True)
        entry = self.ledger.entries.get(storage._cdata)
        if entry is not None:
            entry.ghost = True


def _each_tensor(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same nest of lists and tuples with other tensors. (A function that calls itself from within another would be a
    cycle that holds the tensors until garbage is collected, and the ledger would count them.)"""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_each_tensor(item, change) for item in value)
    return value


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return func._op(*args, **kwargs) if kwargs else func._op(*args)  # what calling ``func`` does, one frame less


def _writes_first_argument_only(func: Any) -> bool:
    schema = func._schema
    written = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    return (
        len(schema.returns) == 1
        and len(written) == 1
        and written[0].name == schema.arguments[0].name
        and str(written[0].type) == "Tensor"
        and func._schema.name.endswith("_")
    )
