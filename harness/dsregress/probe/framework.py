"""The interfaces of adapters: modules that define these names at their top level.

An adapter is a `JobAdapter`, whose training job the probe builds and steps; a workload that runs by itself has a
`ProgramAdapter` (`dsregress.probe.process.adapter_loading`). What an adapter may define in addition is a small protocol
each, found by ``isinstance``. A misspelled name is an error.

An adapter runs inside the measured environment only; ``dsregress.probe.frameworks.deepspeed`` is the model to follow, and
``docs/add-a-framework.md`` walks through a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from dsregress.probe.border.wire import Clocks, Numerics
from vgpu.figures import PhaseReading


class Meter(Protocol):
    """Counts memory, operations and communication of the process that enters it."""

    working: Callable[[], None]
    """Set by the rank: to be called with every operator, as a sign of life."""

    def __enter__(self) -> Meter: ...

    def __exit__(self, *exc: object) -> bool | None: ...

    def begin(self) -> None:
        """Begin a phase: its peaks start from what is held now, its counts from zero."""

    def end(self) -> PhaseReading:
        """End the phase, and return its peaks, what is still held, and its counts (``seconds`` and ``host_calls`` are left
        0)."""


class Stopwatch(Protocol):
    """Measures time on a device."""

    def start(self) -> None:
        """Begin a round: earlier work must not count."""

    def mark(self) -> Any:
        """Return a mark at this point of the device's work."""

    def stop(self) -> None:
        """End the round; afterwards all marks can be read."""

    def seconds(self, begin: Any, end: Any) -> float:
        """Return the seconds between two marks."""

    def clocks(self) -> Clocks | None:
        """Return the device's clocks in the round, None if it does not report them."""


class Training(Protocol):
    """One rank's live training job. A step is ``micro_batches`` times forward, backward, step. If a micro-batch has several
    losses, an attribute ``backwards`` gives the number of forward and backward passes before the step."""

    micro_batches: int

    def forward(self, micro_batch: int) -> None: ...

    def backward(self, micro_batch: int) -> None: ...

    def step(self, micro_batch: int) -> None: ...

    def next_batch(self) -> None:
        """Move on to the fixed data of the next step; called between steps, untimed."""

    def loss(self) -> float | None:
        """Return the mean loss over the micro-batches and ranks of the step just done; None if values mean nothing
        (``sim``). Collective: every rank calls it."""

    def gradient_norm(self) -> float | None:
        """Return the global gradient norm of the step just done; None if the framework does not report it. Collective: every
        rank calls it."""

    def parameters(self) -> Mapping[str, Any] | None:
        """Return whole parameters by name, as `JobAdapter.judge` wants them; None if values mean nothing. Collective: every
        rank calls it."""

    def configuration(self) -> dict[str, Any]:
        """Return the effective configuration as dotted keys and JSON scalars."""


@runtime_checkable
class Adapter(Protocol):
    """The functions of every adapter."""

    def preload(self, device: str) -> None:
        """Import the modules that every cell needs, once per environment, before ranks are forked from this process. Must
        start no thread and touch no device. ``cpu`` and ``sim`` are the same to it: one process serves the cells of both."""

    def world_size(self, parameters: Mapping[str, object], device: str) -> int:
        """Return the number of rank processes to start (1 in ``sim``, however many ranks are simulated)."""


@runtime_checkable
class JobAdapter(Adapter, Protocol):
    """An adapter of training jobs: it builds one, and the probe steps it."""

    def surroundings(self, parameters: Mapping[str, object], device: str) -> AbstractContextManager[Meter]:
        """Return the context of a rank, entered for all its life, before `start`: it makes this process a rank (in ``sim``,
        the simulation), and measures it."""

    def start(
        self,
        parameters: Mapping[str, object],
        device: str,
        shape: Mapping[str, object],
        measured: Callable[[], AbstractContextManager[None]],
    ) -> Training:
        """Join the ranks (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_* are set) and return the built job; work
        that counts as the ``init`` phase runs inside ``with measured():``."""
        ...

    def judge(
        self,
        parameters: Mapping[str, object],
        device: str,
        shape: Mapping[str, object],
        steps: int,
        trained: Mapping[str, object],
        numerics: Numerics,
    ) -> None:
        """Train the same without the framework for ``steps`` steps and fill in the ``true_*`` and ``*_error`` fields of
        ``numerics``; ``trained`` is the result of `Training.parameters`. Called on every rank; rank 0's figures count."""


@runtime_checkable
class ComputesIdeal(Protocol):
    """A memory oracle."""

    def ideal(
        self, parameters: Mapping[str, object], device: str, shape: Mapping[str, object], meter: Meter
    ) -> dict[str, dict[str, int]]:
        """Return the bytes that the job needs to hold, by phase and metric."""
        ...


@runtime_checkable
class KeepsTime(Protocol):
    """A clock of the adapter's own."""

    def stopwatch(self, device: str) -> Stopwatch | None:
        """Return what takes the time of phases; None for the host's clock."""
        ...


@runtime_checkable
class NamesModules(Protocol):
    """Names of modules, for `explain`."""

    def model(self, training: object) -> Any:
        """Return the module of a job whose submodules have names."""
        ...


@runtime_checkable
class ListsHolders(Protocol):
    """Purposes of tensors, for `explain`."""

    def holders(self, training: object) -> Iterator[tuple[str, str, object]]:
        """Yield (category, parameter's name or "", tensor) for all that the framework holds."""
        ...


@runtime_checkable
class HasCanary(Protocol):
    """Replacements of names of packages, which are tried before a cell counts (`dsregress.probe.process.canary`)."""

    def canary_surroundings(self, device: str) -> AbstractContextManager[str]:
        """Return the context of a rank that is alone, with all that the adapter replaces; it yields the name by which a
        program calls its device."""
        ...


@runtime_checkable
class NamesPackage(Protocol):
    """The top-level module of the framework, if it is not that of the adapter."""

    PACKAGE: str
