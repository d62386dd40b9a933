"""Attributes memory to code: where each storage was made, for which module, and for what purpose.

Enabled by `CellRequest.explain`; otherwise the ledger has no observer, at no cost. The observer changes nothing, so the
figures are the same to the byte. When the step is over, `dsregress.probe.holders.trace_replay` replays the ledger's trace.

The module is the innermost one whose ``__call__`` is running (also when a checkpoint runs it again in backward), or the
one that a parameter belongs to. Frames' local variables are never read: that would keep tensors alive.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dsregress.probe.border.wire import Explanation
from dsregress.probe.framework import ListsHolders, NamesModules, NamesPackage
from dsregress.probe.holders import categories
from dsregress.probe.holders.frames import StackWalker, parameter_of_gradient
from dsregress.probe.holders.trace_replay import Birth, PhaseMarks, explain_trace
from vgpu.allocator.model import AllocatorSettings
from vgpu.figures import PhaseReading
from vgpu.meters.ledger import StorageLedger, StorageReference
from vgpu.replacing import Patches


class SiteObserver(Protocol):
    """Observes a rank while it runs."""

    def phase(
        self, name: str, metered: Callable[[str], AbstractContextManager[None]]
    ) -> AbstractContextManager[None]: ...

    def built(self, training: object) -> None: ...

    def new_step(self) -> None: ...

    def measured(self, readings: Mapping[str, PhaseReading]) -> None: ...

    def explanation(self, rank: int, room_bytes: int = 0) -> Explanation: ...


@contextlib.contextmanager
def observe_sites(meter: object, framework: object) -> Iterator[SiteObserver]:
    """Observe what a meter counts. For a meter without a ledger of storages, the explanation is a note."""
    ledger = getattr(meter, "ledger", None)
    if ledger is None:
        yield NullObserver()
        return
    make = getattr(meter, "recorder", SiteRecorder)  # a GPU's meter has another
    recorder: SiteRecorder = make(ledger, framework, package_of(framework))
    recorder.allocator = getattr(meter, "allocator", None)
    try:
        with recorder.calls():
            yield recorder
    finally:
        ledger.observer = None


def package_of(framework: Any) -> str:
    """Return the top module of the framework that an adapter drives: its ``PACKAGE``, else that of the adapter itself."""
    if isinstance(framework, NamesPackage):
        return framework.PACKAGE
    return str(framework.__name__).partition(".")[0]


class NullObserver:
    """Observes nothing."""

    @contextlib.contextmanager
    def phase(self, name: str, metered: Callable[[str], AbstractContextManager[None]]) -> Iterator[None]:
        """Meter a phase and observe nothing."""
        with metered(name):
            yield

    def built(self, training: object) -> None:
        """Observe nothing."""

    def new_step(self) -> None:
        """Observe nothing."""

    def measured(self, readings: Mapping[str, PhaseReading]) -> None:
        """Observe nothing."""

    def explanation(self, rank: int, room_bytes: int = 0) -> Explanation:
        """Return an explanation that says why it has no holders."""
        return Explanation(note="the adapter's meter keeps no ledger of storages, so their holders are unknown")


class SiteRecorder:
    """Observes one rank's ledger, from before anything is booked. ``framework`` is the adapter, ``package`` the top of
    the framework's own modules."""

    def __init__(self, ledger: StorageLedger, framework: object, package: str) -> None:
        #: the settings of the allocator that the meter models; None if it models none
        self.allocator: Callable[[], AllocatorSettings] | None = None
        self._framework = framework
        self._built: list[Any] = []  #: jobs, or a program's engines
        if ledger.trace is None:
            ledger.trace = []
        self._ledger, self._trace, self._package = ledger, ledger.trace, package
        self._births: dict[int, Birth] = {}
        self._phases = PhaseMarks()  #: parts of the trace
        self._labels: list[str] = ["before init"]  #: of all phases so far
        self._modules: list[list[Any]] = []  #: [module, whether its parameters are tagged] of the running calls
        self._names: dict[int, str] = {}
        self._parameter_names: dict[int, str] = {}
        self._times: dict[str, int] = {}  #: phase -> how often it was entered in this step
        self._first = ledger.phase
        self._stack = StackWalker(package)
        ledger.observer = self

    # -- while the job runs ------------------------------------------------------------------------------------------

    def born(self, entry: StorageReference, storage: Any) -> None:
        """Record where a storage was made; see `vgpu.meters.ledger.LedgerObserver`."""
        site, via, own, engine = self._stack.walk(sys._getframe(2))
        module = ""
        birth = Birth(site, via, module, len(self._labels) - 1, engine, own)
        if self._modules:
            call = self._modules[-1]
            birth.module = self._name_of(call[0])
            if not own and not call[1]:
                call[1] = True
                self._tag_parameters(call[0])
        self._births[entry.serial] = birth
        if engine:
            self._note_gradient(birth, entry.nbytes or storage.nbytes())

    def communicated(self, tensors: Iterable[object]) -> None:
        """Tag the buffers of a collective; see `vgpu.meters.ledger.LedgerObserver`."""
        for tensor in tensors:
            self.tag(tensor, categories.BUCKETS, "")

    def tag(self, tensor: Any, category: str, name: str) -> None:
        """Record the purpose of a live tensor; `dsregress.probe.holders.categories.ORDER` decides if it has several."""
        entry = self._ledger.find(tensor.untyped_storage())
        birth = self._births.get(entry.serial) if entry is not None else None
        if birth is None:
            return
        birth.category = categories.stronger(birth.category, category)
        if name:
            birth.names.add(name)

    @contextlib.contextmanager
    def phase(self, name: str, metered: Callable[[str], AbstractContextManager[None]]) -> Iterator[None]:
        """Enter the metered phase, and tag what the job holds once it is over."""
        with metered(name):
            times = self._times[name] = self._times.get(name, 0) + 1
            self._labels.append(name if times == 1 else f"{name} {times}")
            begin = len(self._trace)
            yield
        self._phases.add(name, begin, len(self._trace))
        self._tag_held()

    def built(self, training: object) -> None:
        """Take a job, or one of a program's engines, that has been built: its model's names, and what it holds."""
        self._built.append(training)
        if isinstance(self._framework, NamesModules):
            self._learn_names(self._framework.model(training).named_modules())
        self._tag_held()

    def _tag_held(self) -> None:
        if not isinstance(self._framework, ListsHolders):
            return
        for training in self._built:
            for category, name, tensor in self._framework.holders(training):
                self.tag(tensor, category, name)

    def new_step(self) -> None:
        """Begin a step: the phases from now on are explained, and of earlier ones init and occasions."""
        self._phases.new_step()
        self._times = {}

    @contextlib.contextmanager
    def calls(self) -> Iterator[None]:
        """Follow the calls of torch's modules within the block, without keeping their arguments alive."""
        torch = sys.modules.get("torch")
        if torch is None:
            yield
            return
        module_class = torch.nn.Module
        original = module_class.__call__
        running = self._modules

        def __call__(self: object, *args: object, **kwargs: object) -> object:
            running.append([self, False])
            try:
                return original(self, *args, **kwargs)
            finally:
                running.pop()

        with Patches("tensors are told apart by the module that makes them") as patches:
            patches.replace(module_class, "__call__", __call__)
            yield

    # -- when the step is over ---------------------------------------------------------------------------------------

    def measured(self, readings: Mapping[str, PhaseReading]) -> None:
        """Do nothing: the meter's figures of the step are the ledger's."""

    def explanation(self, rank: int, room_bytes: int = 0) -> Explanation:
        """Return the explanation of the phases since `new_step` and, if the meter models an allocator, the first request
        of the whole run that a card with ``room_bytes`` for tensors refuses."""
        card = None
        if self.allocator is not None and room_bytes:
            card = dataclasses.replace(self.allocator(), card_bytes=room_bytes)
        first = self._first
        trace = [(serial, nbytes, memory, phase - first) for serial, nbytes, memory, phase in self._trace]
        return explain_trace(trace, self._births, self._phases.all(), self._labels, rank, card)

    def _learn_names(self, modules: Iterable[tuple[str, Any]]) -> None:
        """Record the names of the model's modules and of their parameters."""
        for path, module in modules:
            self._names[id(module)] = path or type(module).__name__
            for name, parameter in module._parameters.items():
                self._parameter_names[id(parameter)] = f"{path}.{name}".lstrip(".")

    def _name_of(self, module: object) -> str:
        return self._names.get(id(module), type(module).__name__)

    def _tag_parameters(self, module: Any) -> None:
        """Tag the parameters of a module that computes: they are gathered by then."""
        for name, parameter in module._parameters.items():
            if parameter is not None and hasattr(parameter, "ds_id"):
                self.tag(parameter, categories.GATHERED, f"{self._name_of(module)}.{name}")

    def _note_gradient(self, birth: Birth, nbytes: int) -> None:
        parameter = parameter_of_gradient()
        if parameter is None or nbytes not in [parameter.numel() * width for width in (2, 4, 8)]:
            return
        birth.category = categories.GRADIENTS
        if id(parameter) in self._parameter_names:
            birth.names.add(self._parameter_names[id(parameter)])
