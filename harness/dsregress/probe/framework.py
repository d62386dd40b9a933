"""The interface of a framework's adapter. One module per framework, with these names at its top level.

An adapter runs inside the measured environment only; ``dsregress.probe.frameworks.deepspeed`` is the model to follow, and
``docs/add-a-framework.md`` walks through a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dsregress.probe.border.wire import Numerics
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
        """Return whole parameters by name, as `Framework.judge` wants them; None if values mean nothing. Collective: every
        rank calls it."""

    def configuration(self) -> dict[str, Any]:
        """Return the effective configuration as dotted keys and JSON scalars."""


class Framework(Protocol):
    """The module-level names of an adapter.

    Those of an adapter that has no job of its own to start are optional, and `programs.program_adapter` has them:

    - ``prepare(request, folder)`` is called before ranks are forked, with the run's folder;
    - ``again(folder)`` returns True if a cell whose ranks have failed is to be retried, from `prepare` on;
    - ``run(request, rank, heartbeat, measured, channel)`` is all that a rank does, in place of `surroundings`, `start` and
      `judge`;
    - ``simulated_ranks(parameters)`` are the ranks that ``sim`` runs, one process each; without it, only rank 0.

    ``ideal`` and ``stopwatch`` are optional too: see ``docs/add-a-framework.md``.
    """

    def preload(self, device: str) -> None:
        """Import the modules that every cell needs, once per environment, before ranks are forked from this process. Must
        start no thread and touch no device. ``cpu`` and ``sim`` are the same to it: one process serves the cells of both."""

    def world_size(self, parameters: Mapping[str, Any], device: str) -> int:
        """Return the number of rank processes to start (1 in ``sim``, however many ranks are simulated)."""

    def surroundings(self, parameters: Mapping[str, Any], device: str) -> AbstractContextManager[Meter]:
        """Return the context of a rank, entered for all its life, before `start`: it makes this process a rank (in ``sim``,
        the simulation), and measures it."""

    def start(
        self,
        parameters: Mapping[str, Any],
        device: str,
        shape: Mapping[str, Any],
        measured: Callable[[], AbstractContextManager[None]],
    ) -> Training:
        """Join the ranks (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_* are set) and return the built job; work
        that counts as the ``init`` phase runs inside ``with measured():``."""
        ...

    def judge(
        self,
        parameters: Mapping[str, Any],
        device: str,
        shape: Mapping[str, Any],
        steps: int,
        trained: Mapping[str, Any],
        numerics: Numerics,
    ) -> None:
        """Train the same without the framework for ``steps`` steps and fill in the ``true_*`` and ``*_error`` fields of
        ``numerics``; ``trained`` is the result of `Training.parameters`. Called on every rank; rank 0's figures count."""
