"""Counts memory, operators, FLOPs and communication of the process in which it is entered.

Exactly, it counts:

- *Memory*: every storage from the moment an operator returns it until its last owner releases it, requested bytes, without
  an allocator's rounding. Scratch memory inside a kernel is not counted.
- *The garbage collector's timing is taken out*: it runs at both ends of a phase and never within one, so reference
  cycles count in the peak of the phase that made them, and never in what is retained.
- *A communication thread's timing is taken out*: a collective is finished, and released by its thread, before the
  operator returns. The handle that the caller gets holds the outputs, as NCCL's and gloo's do, and nothing else.
- *Moved bytes*: what operators without FLOPs read and write on the device, each tensor once (see
  `vgpu.meters.operators`); caches are not modelled.
- *Op launches*: dispatched operators, except views and those that only allocate (see `vgpu.meters.operators`).

In ``cpu`` mode the CPU is the accelerator, so all memory is the device's. Never enter it around a timed step.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed  # registers c10d's operators
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from vgpu.figures import PhaseReading
from vgpu.meters import operators
from vgpu.meters.ledger import DEVICE, HOST, NOWHERE, StorageLedger
from vgpu.replacing import Patches

#: How long a communication thread may take to release the tensors of a finished collective; after that they count as held.
_RELEASE_LIMIT_S = 5.0


class TorchMeter(TorchDispatchMode):
    """Implements `dsregress.probe.framework.Meter` with a dispatch mode.

    ``device`` is the type of device whose memory is the device's (``cpu``, ``cuda`` or ``meta``); everything else is
    host memory. With ``trace=True``, ``ledger.trace`` is the list of every allocation and free in order.
    """

    def __init__(self, device: str = "cpu", *, trace: bool = False) -> None:
        super().__init__()
        self.device_type = device
        self.ledger = StorageLedger(trace=trace)
        self.op_launches = 0
        self.flops = 0
        self.moved_bytes = 0
        self.copied_bytes = 0
        self.collectives: dict[str, list[int]] = {}
        self.groups: dict[str, list[int]] = {}
        self.working: Callable[[], None] = lambda: None
        self._collector_was_on = False
        self._patches = Patches("memory of resized storages is counted")

    # -- the protocol ------------------------------------------------------------------------------------------------

    def __enter__(self) -> TorchMeter:
        self._collector_was_on = gc.isenabled()
        gc.collect()
        gc.freeze()  # what was imported so far is not walked again
        gc.disable()
        self._watch_resizes()
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self._patches.close()
        if self._collector_was_on:
            gc.enable()

    def adopt(self, tensors: Iterable[torch.Tensor]) -> None:
        """Book tensors that were made before the meter was entered."""
        for tensor in tensors:
            self.ledger.add(tensor.untyped_storage(), self.memory_of(tensor))

    def begin(self) -> None:
        """Begin a phase: collect garbage and reset all counts."""
        gc.collect(1)  # older objects were examined at the end of the last phase
        self.ledger.reset_peak()
        self.op_launches = 0
        self.flops = 0
        self.moved_bytes = 0
        self.copied_bytes = 0
        self.collectives = {}
        self.groups = {}

    def end(self) -> PhaseReading:
        """End the phase: collect garbage and return its counts."""
        peak = self.ledger.peak
        gc.collect()
        self.ledger.settle()
        live = self.ledger.live
        return PhaseReading(
            device_peak_bytes=peak[DEVICE],
            device_retained_bytes=live[DEVICE],
            host_peak_bytes=peak[HOST],
            host_retained_bytes=live[HOST],
            op_launches=self.op_launches,
            flops=self.flops,
            moved_bytes=self.moved_bytes,
            copied_bytes=self.copied_bytes,
            collectives={kind: list(figures) for kind, figures in sorted(self.collectives.items())},
            groups={name: list(figures) for name, figures in sorted(self.groups.items())},
        )

    # -- counting ----------------------------------------------------------------------------------------------------

    def memory_of(self, tensor: torch.Tensor) -> int:
        """Return the memory of a tensor or a storage: DEVICE, HOST or NOWHERE."""
        kind = tensor.device.type
        return DEVICE if kind == self.device_type else NOWHERE if kind == "meta" else HOST

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
            return func(*args, **(kwargs or {}))
        self.working()
        what = operators.traits(func)
        if what.kind:
            return self._collective(func, what, args, kwargs or {})
        if what.is_composite:
            return self.decomposed(func, args, kwargs or {})
        out = func(*args, **kwargs) if kwargs else func(*args)
        self.count(what, args, kwargs, out)
        if what.moves:
            self.count_moved(operators.moved(what, args, kwargs, out))
        if what.functional is not None:
            self.count_functional(what, args, out)
            _wait_for(getattr(torch.ops, func.namespace).wait_tensor, out)
        return out

    def decomposed(self, func: torch._ops.OpOverload, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """Run an operator that is made of others, each of which is dispatched to this mode."""
        _python_dispatch._push_mode(self)
        try:
            return func.decompose(*args, **kwargs)
        finally:
            _python_dispatch._pop_mode()

    def count(
        self, what: operators.Traits, args: tuple[object, ...], kwargs: dict[str, object] | None, out: object
    ) -> None:
        """Count one operator that has run."""
        self.op_launches += what.launches
        if what.flops is not None:
            self.flops += int(what.flops(*args, **(kwargs or {}), out_val=out))
        if what.returns_storage:
            self.register(out)

    def count_moved(self, tensors: Iterable[torch.Tensor]) -> None:
        """Count what a kernel reads and writes. A kernel with tensors in both memories copies between them."""
        on_device = on_host = 0
        for tensor in tensors:
            memory = self.memory_of(tensor)
            if memory == DEVICE:
                on_device += operators.nbytes_of(tensor)
            elif memory == HOST:
                on_host += operators.nbytes_of(tensor)
        self.moved_bytes += on_device
        if on_device:
            self.copied_bytes += on_host

    def register(self, out: object) -> None:
        """Book the storages of what an operator returned."""
        if isinstance(out, torch.Tensor):
            self.ledger.add(out.untyped_storage(), self.memory_of(out))
        elif isinstance(out, (tuple, list)):
            for item in out:
                self.register(item)

    def count_collective(self, what: operators.Traits, args: tuple[object, ...]) -> None:
        """Count a collective by its kind and payload, before it runs."""
        self._count_payload(what.kind, operators.payload_bytes(what, args), what, args)

    def count_functional(self, what: operators.Traits, args: tuple[object, ...], out: object) -> None:
        """Count a functional collective that has run."""
        assert what.functional is not None
        kind, is_result = what.functional
        payload = operators.tensors_in(out if is_result else args[0])
        self._count_payload(kind, sum(t.numel() * t.element_size() for t in payload), what, args)

    def _count_payload(self, kind: str, nbytes: int, what: operators.Traits, args: tuple[object, ...]) -> None:
        counted = [self.collectives.setdefault(kind, [0, 0])]
        if group := operators.group_text(what, args):
            counted.append(self.groups.setdefault(f"{kind} {group}", [0, 0]))
        for figures in counted:
            figures[0] += 1
            figures[1] += nbytes
        if self.ledger.observer is not None:
            self.ledger.observer.communicated(operators.tensors_in(args))

    def _collective(
        self, func: torch._ops.OpOverload, what: operators.Traits, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        self.count_collective(what, args)
        if what.point_to_point:
            return func(*args, **kwargs)
        involved = list(operators.tensors_in(args))
        counts = [_owners(tensor) for tensor in involved]
        return self._finish_collective([func(*args, **kwargs)], involved, counts)

    def _finish_collective(self, box: list[Any], involved: list[torch.Tensor], counts: list[tuple[int, int]]) -> Any:
        """Wait for a collective and for its thread to release the tensors, and return its result with a finished handle."""
        out = box.pop()  # passed in a list, so that no caller's frame keeps the handle
        position, work = _find_work(out)
        if work is None:
            return out
        work.wait()
        outputs = [] if position is None else list(operators.tensors_in(out))
        finished = finished_work(outputs)
        if finished is None:
            return out  # this torch cannot make handles in Python: the real one then
        del work
        replaced = finished if position is None else (*out[:position], finished, *out[position + 1 :])
        holds = {id(tensor): 0 for tensor in involved}
        for tensor in outputs:
            if id(tensor) in holds:
                holds[id(tensor)] += 1  # by the future in the finished handle
        del out, outputs
        deadline = time.monotonic() + _RELEASE_LIMIT_S
        for tensor, count in zip(involved, counts):
            while _exceed(_owners(tensor), count, holds[id(tensor)]) and time.monotonic() < deadline:
                time.sleep(0)
        return replaced

    def _watch_resizes(self) -> None:
        """Wrap ``storage.resize_`` itself, which bypasses the dispatcher."""
        original: Any = torch.UntypedStorage.resize_
        ledger, memory_of = self.ledger, self.memory_of

        def resize_(storage: object, *args: object) -> object:
            result = original(storage, *args)
            ledger.resized(storage, memory_of(storage))
            return result

        self._patches.replace(torch.UntypedStorage, "resize_", resize_)


def made_of_others(types: Any) -> bool:
    """Return True if a tensor among arguments of these types has no bytes of its own, but consists of other tensors
    (DTensor)."""
    return any(hasattr(kind, "__tensor_flatten__") for kind in types)


#: The mode that torch keeps below all others on the stack, so that it runs after a meter; None if this torch has none.
_MODE_OF_SHAPES = getattr(getattr(torch._C, "_TorchDispatchModeKey", None), "FAKE", None)


def is_asked_for_shapes(types: Any) -> bool:
    """Return True if torch itself computes the shape of something, as a DTensor does before each operator: tensors of a
    FakeTensorMode have no bytes, and nothing runs."""
    if types and any(kind.__name__ == "FakeTensor" for kind in types):
        return True
    return _MODE_OF_SHAPES is not None and torch._C._get_dispatch_mode(_MODE_OF_SHAPES) is not None


def _wait_for(wait: Any, out: object) -> None:
    """End a functional collective, for which a program waits when it needs the result."""
    for tensor in operators.tensors_in(out):
        wait(tensor)


def finished_work(outputs: list[torch.Tensor]) -> Any:
    """Return a handle of a finished collective that holds its outputs, boxed for the dispatcher; None if this torch
    cannot make one."""
    c10d = torch._C._distributed_c10d
    if not hasattr(c10d.Work, "boxed"):
        return None
    future: Any = torch.futures.Future()
    future.set_result(outputs)
    return c10d._create_work_from_future(future).boxed()


def _find_work(out: Any) -> tuple[int | None, Any]:
    """Return (position in the result, the handle) of a collective's result; position None if the handle is all of it."""
    unbox = getattr(torch._C._distributed_c10d.Work, "unbox", None)
    if unbox is None or out is None:
        return None, None
    if isinstance(out, torch.ScriptObject):
        return None, unbox(out)
    for position, item in enumerate(out):
        if isinstance(item, torch.ScriptObject):
            return position, unbox(item)
    return None, None


def _owners(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the number of owners of the tensor, and of its storage: gloo's all-gather holds views of its output, after
    its input is free. Up to torch 2.3 a tensor's owners are unknown, so one whose storage another tensor holds as
    well may seem to be released."""
    storage = tensor.untyped_storage()
    holders = tensor._use_count() if hasattr(tensor, "_use_count") else 0
    return holders, torch._C._storage_Use_Count(storage._cdata)  # type: ignore[attr-defined]


def _exceed(owners: tuple[int, int], before: tuple[int, int], held: int) -> bool:
    """Return True if a tensor has more owners than before, besides ``held`` that the caller keeps; or its storage has."""
    return owners[0] > before[0] + held or owners[1] > before[1]
