"""Who holds the memory: where in the code each storage was made, for which module, and what it is for.

Asked for with `CellRequest.explain`, and free where it is not: the ledger then has no observer. It watches and changes
nothing, so the figures are the same to the byte. When the step is over, the ledger's trace of allocations and frees is
walked once more, to what was alive at each phase's peak and at its end; so the bytes add up to the metric.

The module is the innermost one whose ``__call__`` is running (also when a checkpoint runs it again in backward), or
the one that a parameter belongs to. Frames' local variables are never looked at: that would keep tensors alive.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

from harness.probe import categories
from harness.probe.ledger import DEVICE, HOST, Entry, Event, StorageLedger
from harness.probe.wire import Explanation, Held, Moment, PhaseReading, Stretch

#: Callers that are told of each site, and rows of a moment beyond which the smallest are told by category.
CALLERS, _MOST_ROWS = 5, 60
#: Points of a phase in the timeline: two, its least and its most, for each of as many slices.
_SLICES = 60

#: Functions that wrap others and say nothing themselves.
WRAPPERS = {"wrapped_fn", "wrapped_func", "decorate_context", "wrapper", "_use_grad", "maybe_fallback"}
#: What runs operators for others; ``torch.optim`` is somebody's own code.
SILENT = {"", "torch", "harness", "pytest", "_pytest", "pluggy", "pytest_benchmark", *sys.stdlib_module_names}

_MEMORIES = ((DEVICE, "device"), (HOST, "host"))


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


class Birth:
    """One storage's origin."""

    __slots__ = ("category", "engine", "module", "names", "own", "phase", "site", "via")

    def __init__(self, site: str, via: tuple[str, ...], module: str, phase: int, engine: bool, own: bool) -> None:
        self.site, self.via, self.module, self.phase = site, via, module, phase
        self.engine = engine  #: made by the autograd engine itself
        self.own = own  #: made by the framework under test
        self.category: str | None = None
        self.names: set[str] = set()


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
        """See `harness.probe.ledger.Observer`."""
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
        """See `harness.probe.ledger.Observer`."""
        for tensor in tensors:
            self.tag(tensor, categories.BUCKETS, "")

    def tag(self, tensor: Any, category: str, name: str) -> None:
        """Notes what a live tensor is for; see `harness.probe.categories.ORDER` for one that is several things."""
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
            elif not outermost and not module.startswith(("torch", "harness.probe.sim", "harness.probe.meter")):
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


def explain(
    trace: list[Event],
    births: Mapping[int, Birth],
    phases: list[tuple[str, int, int]],
    labels: list[str],
    rank: int,
) -> Explanation:
    """From a trace of allocations and frees, whose phases are indices of ``labels``, to what was alive at the peak and
    the end of each of ``phases`` (name, and its part of the trace)."""
    return _Replay(trace, births, phases, labels).explanation(rank)


class _Replay:
    def __init__(
        self, trace: list[Event], births: Mapping[int, Birth], phases: list[tuple[str, int, int]], labels: list[str]
    ) -> None:
        self._trace, self._births, self._phases, self._labels = trace, births, phases, labels
        self._deaths: dict[int, int] = {}

    def explanation(self, rank: int) -> Explanation:
        """Of the phases since `new_step`."""
        self._inherit()
        totals = self._totals()
        wanted: dict[int, list[tuple[str, int]]] = collections.defaultdict(list)
        peaks: dict[str, tuple[int, int]] = {}
        ends: dict[str, int] = {}
        for name, begin, end in self._phases:
            for memory, word in _MEMORIES:
                total, key = totals[memory], f"{name}.{word}_peak_bytes"
                at = max(range(begin, end + 1), key=total.__getitem__)
                if key not in peaks or total[at] > totals[memory][peaks[key][0]]:
                    peaks[key] = (at, memory)
            ends[name] = end
        for key, (at, memory) in peaks.items():
            wanted[at].append((key, memory))
        for name, end in ends.items():
            for memory, word in _MEMORIES:
                wanted[end].append((f"{name}.{word}_retained_bytes", memory))
        moments: dict[str, Moment] = {}
        for at, live in self._alive(sorted(wanted)):
            for key, memory in wanted[at]:
                rows = self._rows(live[memory])
                moments[key] = Moment(rank=rank, nbytes=sum(row.nbytes for row in rows), held=rows)
        order = [
            f"{name}.{word}_{what}_bytes" for name in ends for _, word in _MEMORIES for what in ("peak", "retained")
        ]
        timeline = [
            Stretch(name, _envelope(totals[DEVICE], begin, end)) for name, begin, end in self._phases if name != "init"
        ]
        return Explanation(moments={key: moments[key] for key in order}, timeline=timeline)

    def _totals(self) -> dict[int, list[int]]:
        """Live bytes of each memory before the first event and after each."""
        totals = {memory: [0] for memory, _ in _MEMORIES}
        now = dict.fromkeys(totals, 0)
        for _, nbytes, memory, _ in self._trace:
            if memory in now:
                now[memory] += nbytes
            for one, total in totals.items():
                total.append(now[one])
        return totals

    def _alive(self, moments: list[int]) -> Iterator[tuple[int, dict[int, dict[int, int]]]]:
        """(moment, memory -> storage's serial -> bytes) at each of these positions of the trace."""
        live: dict[int, dict[int, int]] = collections.defaultdict(dict)
        at = 0
        for moment in moments:
            for serial, nbytes, memory, _ in self._trace[at:moment]:
                size = live[memory].get(serial, 0) + nbytes
                if size:
                    live[memory][serial] = size
                else:
                    live[memory].pop(serial, None)
            at = moment
            yield moment, live

    def _rows(self, live: Mapping[int, int]) -> list[Held]:
        together: dict[tuple[Any, ...], list[int]] = {}
        for serial, nbytes in live.items():
            figures = together.setdefault(self._told(serial), [0, 0])
            figures[0] += nbytes
            figures[1] += 1
        rows = [
            Held(nbytes=nbytes, count=count, category=key[0], module=key[1], site=key[2], via=list(key[3]), born=key[4])
            for key, (nbytes, count) in together.items()
        ]
        rows.sort(key=lambda row: (-row.nbytes, row.category, row.site, row.module, row.via))
        kept, rest = rows[:_MOST_ROWS], rows[_MOST_ROWS:]
        for category in categories.ORDER:
            alike = [row for row in rest if row.category == category]
            if alike:
                nbytes, count = sum(row.nbytes for row in alike), sum(row.count for row in alike)
                kept.append(Held(nbytes, count, category, "", f"{len(alike)} smaller places", [], ""))
        return kept

    def _told(self, serial: int) -> tuple[Any, ...]:
        birth = self._births.get(serial)
        if birth is None:
            return (categories.TEMPORARY, "", "inside a kernel", (), "")
        modules = {_numberless(name) for name in birth.names}
        module = _common(modules) if modules else _numberless(birth.module)
        category = birth.category or self._by_life(birth, serial)
        born = self._labels[birth.phase]
        return (category, module, birth.site, birth.via, born)

    def _by_life(self, birth: Birth, serial: int) -> str:
        """What a storage is that nobody named: an activation, temporary, or other."""
        died = self._deaths.get(serial)
        if died == birth.phase:
            return categories.TEMPORARY
        if self._labels[birth.phase].startswith("forward") and not birth.own:
            return categories.ACTIVATIONS
        return categories.OTHER

    def _inherit(self) -> None:
        """Gives what nobody named the category of its birthplace, where the framework made it and all others of the
        place agree; and finds out in which phase each storage died."""
        known: dict[str, set[str]] = collections.defaultdict(set)
        for birth in self._births.values():
            if birth.category is not None and birth.own and not birth.engine:
                known[birth.site].add(birth.category)
        for birth in self._births.values():
            agreed = known.get(birth.site, ())
            if birth.category is None and birth.own and not birth.engine and len(agreed) == 1:
                birth.category = next(iter(agreed))
        sizes: dict[int, int] = collections.defaultdict(int)
        for serial, nbytes, _, phase in self._trace:
            sizes[serial] += nbytes
            if sizes[serial] == 0 and nbytes < 0:
                self._deaths[serial] = phase


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


_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)")


def _numberless(path: str) -> str:
    """``model.layers.17.mlp`` -> ``model.layers.*.mlp``."""
    return _NUMBER.sub("*", path)


def _common(paths: Iterable[str]) -> str:
    """What several paths begin with: ``model.layers.*``, or ``*``. One path is itself."""
    split = [path.split(".") for path in paths]
    if len(split) == 1:
        return ".".join(split[0])
    shared = []
    for parts in zip(*split):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join([*shared, "*"]) if not shared or shared[-1] != "*" else ".".join(shared)


def _envelope(total: list[int], begin: int, end: int) -> list[list[int]]:
    """Position in thousandths and bytes: the least and the most of each slice, in the order in which they came."""
    count = end - begin + 1
    slices = min(_SLICES, count)
    points: list[list[int]] = []
    for number in range(slices):
        part = range(begin + count * number // slices, begin + count * (number + 1) // slices)
        low, high = min(part, key=total.__getitem__), max(part, key=total.__getitem__)
        for at in sorted({low, high}):
            points.append([(at - begin) * 1000 // max(1, count - 1), total[at]])
    last = [1000, total[end]]
    return points if points[-1] == last else [*points, last]


def file_name(rank: int) -> str:
    """Of a rank's explanation in the run's folder."""
    return f"explanation-{rank}.json"


def collect(folder: Path, ranks: int) -> None:
    """Leaves ``explanation.json``, of the ranks that left theirs."""
    told = [json.loads(file.read_text()) for rank in range(ranks) if (file := folder / file_name(rank)).exists()]
    if told:
        unfinished = folder / "explanation.unfinished"
        unfinished.write_text(json.dumps(dataclasses.asdict(worst(map(_read, told)))))
        unfinished.rename(folder / "explanation.json")


def _read(content: dict[str, Any]) -> Explanation:
    moments = {
        key: Moment(moment["rank"], moment["nbytes"], [Held(**held) for held in moment["held"]])
        for key, moment in content["moments"].items()
    }
    return Explanation(moments, [Stretch(**stretch) for stretch in content["timeline"]], content["note"])


def worst(explanations: Iterable[Explanation]) -> Explanation:
    """Of all ranks: each moment of the rank that holds most at it, the timeline of the one with the highest peak."""
    told = list(explanations)
    whole = Explanation(note=next((one.note for one in told if one.note), ""))
    for one in told:
        for key, moment in one.moments.items():
            if key not in whole.moments or moment.nbytes > whole.moments[key].nbytes:
                whole.moments[key] = moment
    whole.timeline = max((one.timeline for one in told), key=_highest, default=[])
    return whole


def _highest(timeline: list[Stretch]) -> int:
    return max((nbytes for stretch in timeline for _, nbytes in stretch.points), default=0)
