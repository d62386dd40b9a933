"""The interface of an executor, wherever it runs cells: on this machine, in containers, on a cluster, or not at all
(`fake`).

An executor opens workers. A worker is one live environment with its framework imported, and runs one cell at a time. Several
workers hold a cell open at once, so that timed rounds take turns: A B C, B C A. Nothing that a measured process does may
raise here: it becomes an `Ended` with its outcome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from dsregress.model import Cell, Environment, Hardware, Outcome
from dsregress.probe.border.wire import Detail, Explanation, RunRecord


class Lost(Exception):
    """The machine that ran a cell is gone or can no longer run it: the cell must run elsewhere."""


class ProgramLaunch(NamedTuple):
    """The launch of a program on this machine, which no result records."""

    folder: str  #: where its line would be typed; absolute, or in the copy of the scenarios
    line: str  #: with its secrets and home folders; the cell has the published form
    found: str = ""  #: folder of files that it finds in its own, besides the user's
    kept: str = ""  #: folder in which the files that it writes are kept, by stack; empty: they are discarded
    written: tuple[
        tuple[str, str], ...
    ] = ()  #: path in its folder -> content, of what its script writes before its line


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan by which one cell runs."""

    warmup_rounds: int  #: timed rounds that are dropped; 0 if nothing is timed
    rounds: int  #: timed rounds that count, at most; 0 if nothing is timed
    huge_pages: bool = False  #: timed ranks move what they have written to huge pages
    short_turns: bool = False  #: timed ranks take short turns of a core, so that they need not wait for other processes
    explain: bool = False  #: only find the holders of the memory: an untimed run that gives no result
    room_bytes: int = 0  #: of an explanation: the card's memory for tensors; 0 if no card is known


class Waiting(msgspec.Struct, frozen=True):
    """Everything untimed is measured; the cell waits for its next timed round."""

    round_s: float | None = None  #: seconds that its last round took; None before the first


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The cell has ended, with this outcome, and its processes are gone."""

    outcome: Outcome
    record: RunRecord | None = None  #: without its detail
    detail: Detail | None = None
    explanation: Explanation | None = None  #: where the plan requested one
    benchmark: Mapping[str, Any] | None = None  #: pytest-benchmark's own JSON
    left: Mapping[str, int] = {}  #: processes it left running, which had to be ended: name -> count
    started_at: str = ""  #: UTC, ISO 8601
    duration_s: float = 0.0  #: spent on this cell, without waiting for others
    hardware: Hardware | None = None  #: where it ran, if not on the hardware of the target
    environment: Environment | None = None  #: in which it ran, if it was built on another machine


class RankShare(msgspec.Struct, frozen=True, kw_only=True):
    """The ranks of one cell that run on one machine, where they span several."""

    rendezvous: str  #: ``tcp://ADDRESS:PORT`` on the machine of rank 0
    first_rank: int
    local_ranks: int


class Worker(Protocol):
    """One environment, device mode and framework, kept alive over many cells."""

    def open(self) -> None:
        """Start importing the framework; return at once."""

    def wait_until_open(self) -> None:
        """Wait until the framework is imported or cannot be."""

    def start(self, cell: Cell, plan: RunPlan) -> Waiting | Ended:
        """Run the untimed part of a cell. Open the worker unless it is open."""
        ...

    def round(self) -> Waiting | Ended:
        """Run one timed round of the waiting cell."""
        ...

    def stop(self) -> Ended:
        """End the waiting cell, which keeps the rounds that it has run."""
        ...

    def close(self) -> None:
        """End everything that the worker started. May be called at any time, and twice."""


class Executor(Protocol):
    """Runs cells."""

    def worker(self, environment: Environment, device: str, framework: str) -> Worker:
        """Return a worker that is not open yet. The environment must have been built."""
        ...

    def probe_sha256(self) -> str:
        """Return the hash of the probe's code, for the record."""
        ...

    def cluster(self, hardware: Hardware) -> Cluster:
        """Return the executor's machines; `dsregress.launch.one_machine.OneMachine` if it has only the one with this
        hardware."""
        ...

    def close(self) -> None:
        """Close every worker, from any thread."""


class Machine(Protocol):
    """A machine, or several that the ranks of a cell span, reserved until it is released. Methods of its workers may raise
    Lost."""

    @property
    def hardware(self) -> Hardware:
        """Hardware of the machine, or of each of several."""
        ...

    def busy_cores(self) -> float:
        """Return the number of cores that other people's work keeps busy, measured while the harness runs nothing. Of
        several machines, the first is measured."""
        ...

    def fits(self, cell: Cell) -> bool:
        """Return True if the cell can run on it."""
        ...

    def worker(self, environment: Environment, cell: Cell) -> Worker:
        """Return this machine's worker for cells like this one. It is made once, and is not open when it is made."""
        ...

    def release(self) -> None:
        """Give the machine back. May be called twice."""


class Cluster(Protocol):
    """The machines of an executor. Methods of workers may raise Lost."""

    #: True if several workers may run untimed cells of one environment at the same time.
    shares_environments: bool

    def workers_at_once(self) -> int:
        """Return the number of slots for untimed cells of all machines together."""
        ...

    def slots(self, cell: Cell) -> int:
        """Return the number of slots that an untimed cell takes."""
        ...

    def worker_for(self, environment: Environment, cell: Cell) -> Worker:
        """Return a worker for untimed cells like this one."""
        ...

    def keep_workers_for(self, cells: Sequence[Cell]) -> None:
        """Close workers of timed sessions that none of these cells needs."""

    def close(self) -> None:
        """End everything at once, from any thread."""

    def machines_at_once(self, cell: Cell) -> int:
        """Return the number of machines (or groups of them) that can be held at once for cells like this one."""
        ...

    def hold(self, cell: Cell) -> Machine:
        """Wait for a machine for the timed sessions of cells like this one, and return it.

        Raise EnvironmentUnavailable if no machine is large enough, or none is left.
        """
        ...
