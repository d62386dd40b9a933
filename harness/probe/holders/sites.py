"""Who holds the memory: where in the code each storage was made, for which module, and what it is for.

Asked for with `CellRequest.explain`, and free where it is not: the ledger then has no observer. It watches and changes
nothing, so the figures are the same to the byte. When the step is over, `harness.probe.holders.replay` walks the
ledger's trace once more.

The module is the innermost one whose ``__call__`` is running (also when a checkpoint runs it again in backward), or
the one that a parameter belongs to. Frames' local variables are never looked at: that would keep tensors alive.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import CodeType, FrameType
from typing import Any, Protocol

from harness.probe.border.wire import Explanation, PhaseReading
from harness.probe.holders import categories
from harness.probe.holders.replay import Birth, explain
from harness.probe.meters.ledger import Entry, StorageLedger

#: Callers that are told of each site.
CALLERS = 5

#: Functions that wrap others and say nothing themselves.
WRAPPERS = {"wrapped_fn", "wrapped_func", "decorate_context", "wrapper", "_use_grad", "maybe_fallback"}
#: What runs operators for others; ``torch.optim`` is somebody's own code.
SILENT = {"", "torch", "harness", "pytest", "_pytest", "pluggy", "pytest_benchmark", *sys.stdlib_module_names}


class Watch(Protocol):
    """Who watches a rank while it runs."""

    def phase(
        self, name: str, metered: Callable[[str], AbstractContextManager[None]]
    ) -> AbstractContextManager[None]: ...

    def built(self, training: Any) -> None: ...

    def new_step(self) -> None: ...

    def measured(self, readings: Mapping[str, PhaseReading]) -> None: ...

    def explanation(self, rank: int) -> Explanation: ...


@contextlib.contextmanager
def watching(meter: Any, framework: Any, dotted_name: str) -> Iterator[Watch]:
    """Watches what a meter counts. One that keeps no ledger of storages leaves a note and no explanation."""
    ledger = getattr(meter, "ledger", None)
    if ledger is None:
        yield Blind()
        return
    bring = getattr(meter, "recorder", Recorder)  # a GPU's meter has one of its own
    recorder: Recorder = bring(ledger, framework, package_of(framework, dotted_name))
    with recorder.calls():
        yield recorder
    ledger.observer = None


def package_of(framework: Any, dotted_name: str) -> str:
    """The top module of the framework that an adapter drives: what it says, or what its name says."""
    parts = dotted_name.split(".")
    said: str | None = getattr(framework, "PACKAGE", None)
    return said or (parts[-1] if parts[0] == "harness" else parts[0])


class Blind:
    """Where nothing can be watched."""

    @contextlib.contextmanager
    def phase(self, name: str, metered: Callable[[str], AbstractContextManager[None]]) -> Iterator[None]:
        with metered(name):
            yield

    def built(self, training: Any) -> None: ...

    def new_step(self) -> None: ...

    def measured(self, readings: Mapping[str, PhaseReading]) -> None: ...

    def explanation(self, rank: int) -> Explanation:
        return Explanation(note="the adapter's meter keeps no books of storages, so nobody knows who holds them")


class Recorder:
    """Observes one rank's ledger, from before anything is booked. ``framework`` is the adapter, ``package`` the top of the
    framework's own modules."""

    def __init__(self, ledger: StorageLedger, framework: Any, package: str) -> None:
        self._framework, self._training = framework, None
        if ledger.trace is None:
            ledger.trace = []
        self._ledger, self._trace, self._package = ledger, ledger.trace, package
        self._births: dict[int, Birth] = {}
        self._phases: list[tuple[str, int, int]] = []  #: name, and the part of the trace that is it
        self._labels: list[str] = ["before init"]  #: of all phases so far
        self._modules: list[list[Any]] = []  #: [module, its parameters have been seen] of the running calls
        self._names: dict[int, str] = {}
        self._parameter_names: dict[int, str] = {}
        self._times: dict[str, int] = {}  #: phase -> how often it was entered in this step
        self._first = ledger.phase
        self._places: dict[tuple[CodeType, int], str] = {}
        self._tops: dict[str, str | None] = {}
        ledger.observer = self

    # -- while the job runs ------------------------------------------------------------------------------------------

    def born(self, entry: Entry, storage: Any) -> None:
        """See `harness.probe.meters.ledger.Observer`."""
        site, via, own, engine = self._walk(sys._getframe(2))
        module = ""
        birth = Birth(site, via, module, len(self._labels) - 1, engine, own)
        if self._modules:
            call = self._modules[-1]
            birth.module = self._name_of(call[0])
            if not own and not call[1]:
                call[1] = True
                self._parameters_of(call[0])
        self._births[entry.serial] = birth
        if engine:
            self._gradient(birth, entry.nbytes or storage.nbytes())

    def communicated(self, tensors: Iterable[Any]) -> None:
        """See `harness.probe.meters.ledger.Observer`."""
        for tensor in tensors:
            self.tag(tensor, categories.BUCKETS, "")

    def tag(self, tensor: Any, category: str, name: str) -> None:
        """Notes what a live tensor is for; see `harness.probe.holders.categories.ORDER` for one that is several things."""
        entry = self._ledger.entries.get(tensor.untyped_storage()._cdata)
        birth = self._births.get(entry.serial) if entry is not None else None
        if birth is None:
            return
        birth.category = categories.stronger(birth.category, category)
        if name:
            birth.names.add(name)

    @contextlib.contextmanager
    def phase(self, name: str, metered: Callable[[str], AbstractContextManager[None]]) -> Iterator[None]:
        """Enters the metered phase, and looks at who holds what once it is over."""
        with metered(name):
            times = self._times[name] = self._times.get(name, 0) + 1
            self._labels.append(name if times == 1 else f"{name} {times}")
            begin = len(self._trace)
            yield
        self._phases.append((name, begin, len(self._trace)))
        self._look()

    def built(self, training: Any) -> None:
        """The job stands: from now on it can be asked for its model and for what it holds."""
        self._training = training
        model = getattr(self._framework, "model", None)
        if model is not None:
            self._named(model(training).named_modules())
        self._look()

    def _look(self) -> None:
        holders = getattr(self._framework, "holders", None)
        if self._training is None or holders is None:
            return
        for category, name, tensor in holders(self._training):
            self.tag(tensor, category, name)

    def new_step(self) -> None:
        """Only what is measured from here on is told, and init."""
        self._phases = [phase for phase in self._phases if phase[0] == "init"]
        self._times = {}

    @contextlib.contextmanager
    def calls(self) -> Iterator[None]:
        """Follows the calls of torch's modules. The arguments live no longer than in torch's own frame below."""
        torch = sys.modules.get("torch")
        if torch is None:
            yield
            return
        module_class = torch.nn.Module
        original = module_class.__call__
        running = self._modules

        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            running.append([self, False])
            try:
                return original(self, *args, **kwargs)
            finally:
                running.pop()

        module_class.__call__ = __call__
        try:
            yield
        finally:
            module_class.__call__ = original

    # -- afterwards --------------------------------------------------------------------------------------------------

    def measured(self, readings: Mapping[str, PhaseReading]) -> None:
        """The ledger's figures and these are the same."""

    def explanation(self, rank: int) -> Explanation:
        """Of the phases since `new_step`."""
        first = self._first
        trace = [(serial, nbytes, memory, phase - first) for serial, nbytes, memory, phase in self._trace]
        return explain(trace, self._births, self._phases, self._labels, rank)

    # -- where it is -------------------------------------------------------------------------------------------------

    def _walk(self, frame: FrameType | None) -> tuple[str, tuple[str, ...], bool, bool]:
        """(site, its callers, whether the framework's own code is the site, whether the autograd engine is)."""
        found: list[str] = []
        own = engine = False
        outermost = ""
        while frame is not None and len(found) <= CALLERS:
            code = frame.f_code
            module = frame.f_globals.get("__name__", "")
            top = self._top(module)
            if top is not None:
                if code.co_name not in WRAPPERS:
                    if not found:
                        own = top == self._package
                    found.append(self._place(frame, module))
            elif not found and not engine and _is_engine(code.co_name, module):
                engine = True
                found.append(f"autograd engine: {_node_name()}")
            elif not outermost and not module.startswith(("torch", "harness.probe.sim", "harness.probe.meters.meter")):
                outermost = self._place(frame, module)
            frame = frame.f_back
        if not found:
            found = [outermost or "outside Python"]
        return found[0], tuple(found[1:]), own, engine

    def _top(self, module: str) -> str | None:
        """The package of a module that counts as somebody's own code; None for one that runs others'."""
        known = self._tops.get(module, "")
        if known == "":
            top = module.split(".")[0]
            own = module.startswith("torch.optim.") or top not in SILENT
            known = self._tops[module] = top if own else None
        return known

    def _place(self, frame: FrameType, module: str) -> str:
        where = (frame.f_code, frame.f_lineno)
        known = self._places.get(where)
        if known is None:
            parts = frame.f_code.co_filename.replace("\\", "/").split("/")
            depth = len(module.split(".")) + (parts[-1] == "__init__.py")
            known = f"{'/'.join(parts[-depth:])}:{frame.f_lineno} in {frame.f_code.co_name}"
            self._places[where] = known
        return known

    def _named(self, modules: Iterable[tuple[str, Any]]) -> None:
        """The names of the model's modules and of their parameters."""
        for path, module in modules:
            self._names[id(module)] = path or type(module).__name__
            for name, parameter in module._parameters.items():
                self._parameter_names[id(parameter)] = f"{path}.{name}".lstrip(".")

    def _name_of(self, module: Any) -> str:
        return self._names.get(id(module), type(module).__name__)

    def _parameters_of(self, module: Any) -> None:
        """The parameters of a module that computes, which must be there by now."""
        for name, parameter in module._parameters.items():
            if parameter is not None and hasattr(parameter, "ds_id"):
                self.tag(parameter, categories.GATHERED, f"{self._name_of(module)}.{name}")

    def _gradient(self, birth: Birth, nbytes: int) -> None:
        parameter = _parameter_of_gradient()
        if parameter is None or nbytes not in [parameter.numel() * width for width in (2, 4, 8)]:
            return
        birth.category = categories.GRADIENTS
        if id(parameter) in self._parameter_names:
            birth.names.add(self._parameter_names[id(parameter)])


def _is_engine(function: str, module: str) -> bool:
    """Whether this frame is torch's that hands over to the autograd engine (its name since 2.3, and before)."""
    return function == "_engine_run_backward" or (function == "backward" and module == "torch.autograd")


def _current_node() -> Any:
    torch = sys.modules.get("torch")
    ask = getattr(torch._C, "_current_autograd_node", None) if torch is not None else None
    return ask() if ask is not None else None


def _node_name() -> str:
    node = _current_node()
    return "backward" if node is None else str(node.name())


def _parameter_of_gradient() -> Any:
    """The parameter that the running node of the autograd engine makes a gradient for, if only views lie between."""
    node = _current_node()
    for following, _ in getattr(node, "next_functions", ()):
        for _ in range(3):
            if following is None:
                break
            variable = getattr(following, "variable", None)
            if variable is not None:
                return variable
            onwards = following.next_functions
            if len(onwards) != 1:
                break
            following = onwards[0][0]
    return None
