"""An executor that runs nothing: a test decides how each cell ends, and every call is logged.

For tests of scheduling (what runs next to what, what is reused, what an interruption leaves), without processes.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence

from dsregress.launch.contract import Cluster, Ended, RunPlan, Waiting, Worker
from dsregress.launch.one_machine import OneMachine
from dsregress.launch.workers import Workers
from dsregress.model import Cell, Environment, Hardware, Passed
from dsregress.probe.border.wire import Detail, RankRecord, RunRecord
from vgpu.figures import PhaseReading

#: The behaviour of a cell: the way it ends.
Behaviour = Callable[[Cell], Ended]


def passes(cell: Cell, step_s: float = 0.1, retained_bytes: int = 1000, rounds: int = 9) -> Ended:
    """Return the end of a cell that trains, on one rank."""
    reading = PhaseReading(device_peak_bytes=2 * retained_bytes, device_retained_bytes=retained_bytes)
    record = RunRecord(
        outcome="passed",
        world_size=1,
        ranks=[RankRecord(rank=0, phases={"backward": reading})],
        round_s=[] if cell.device == "sim" else [step_s] * rounds,
    )
    return Ended(outcome=Passed(), record=record, detail=Detail(), started_at="2026-01-01T00:00:00Z", duration_s=step_s)


class FakeExecutor:
    """See `dsregress.launch.contract.Executor`. ``log`` holds one line for each call, in order."""

    def __init__(self, behaviour: Behaviour = passes) -> None:
        self.log: list[str] = []
        self.behaviour = behaviour
        self.closed = False

    def probe_sha256(self) -> str:
        """Return the hash of the probe's code."""
        return "fake"

    def cluster(self, hardware: Hardware) -> Cluster:
        """Return the machines that cells run on."""
        return OneMachine(self, hardware, busy_cores=lambda: 0.0)

    def worker(self, environment: Environment, device: str, framework: str) -> FakeWorker:
        """Return a worker of the environment, which is not open yet."""
        return FakeWorker(self, f"{environment.stack.label or environment.stack.id}:{device}")

    def close(self) -> None:
        """Close every worker."""
        self.closed = True
        self.log.append("close executor")


class FakeCluster(FakeExecutor):
    """See `dsregress.launch.contract.Cluster`: a cluster of ``machines`` machines. Workers on a held one have ``@NUMBER`` in
    the log. A behaviour that raises Lost is a machine that is lost."""

    def __init__(self, behaviour: Behaviour = passes, machines: int = 2) -> None:
        super().__init__(behaviour)
        self.machines = machines
        self.free: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in range(machines):
            self.free.put(number)

    shares_environments = True

    def cluster(self, hardware: Hardware) -> Cluster:
        """Return the machines that cells run on."""
        return self

    def workers_at_once(self) -> int:
        """Return the number of slots for untimed cells."""
        return self.machines

    def slots(self, cell: Cell) -> int:
        """Return the number of slots that an untimed cell takes."""
        return 1

    def worker_for(self, environment: Environment, cell: Cell) -> FakeWorker:
        """Return a worker for untimed cells like this one."""
        return self.worker(environment, cell.device, cell.framework)

    def keep_workers_for(self, cells: Sequence[Cell]) -> None:
        """Close workers that none of these cells needs."""

    def machines_at_once(self, cell: Cell) -> int:
        """Return the number of machines that can be held at once for cells like this one."""
        return self.machines

    def hold(self, cell: Cell) -> FakeMachine:
        """Wait for a machine for timed sessions, and return it."""
        return FakeMachine(self, self.free.get())


class FakeMachine:
    """See `dsregress.launch.contract.Machine`."""

    hardware = Hardware(cpu="pretended", cores=2, memory_bytes=8 << 30)

    def __init__(self, cluster: FakeCluster, number: int) -> None:
        self._cluster = cluster
        self._number = number
        self._workers = Workers(self._worker)

    def busy_cores(self) -> float:
        """Return the number of cores that other work keeps busy."""
        return 0.0

    def fits(self, cell: Cell) -> bool:
        """Return True if the cell can run on the machine."""
        return True

    def worker(self, environment: Environment, cell: Cell) -> Worker:
        """Return the worker for cells like this one."""
        return self._workers.worker(environment, cell)

    def _worker(self, environment: Environment, device: str, framework: str) -> FakeWorker:
        name = f"{environment.stack.label or environment.stack.id}:{device}@{self._number}"
        return FakeWorker(self._cluster, name)

    def release(self) -> None:
        """Give the machine back."""
        self._workers.close()
        self._cluster.free.put(self._number)


class FakeWorker:
    """See `dsregress.launch.contract.Worker`."""

    def __init__(self, executor: FakeExecutor, name: str) -> None:
        self._executor = executor
        self._name = name
        self._rounds_left = self._rounds = 0
        self._cell: Cell | None = None

    def open(self) -> None:
        """Start importing the framework; return at once."""
        self._log("open")

    def wait_until_open(self) -> None:
        """Wait until the framework is imported or cannot be."""

    def start(self, cell: Cell, plan: RunPlan) -> Waiting | Ended:
        """Run the untimed part of a cell."""
        self._log(f"start {cell.scenario}/{cell.variant}")
        self._cell, self._rounds_left, self._rounds = cell, plan.warmup_rounds + plan.rounds, 0
        return self._advance()

    def round(self) -> Waiting | Ended:
        """Run one timed round of the waiting cell."""
        self._log("round")
        self._rounds_left -= 1
        self._rounds += 1
        return self._advance()

    def stop(self) -> Ended:
        """End the waiting cell, which keeps its rounds."""
        self._log("stop")
        self._rounds_left = 0
        ended = self._advance()
        assert isinstance(ended, Ended)
        return ended

    def close(self) -> None:
        """End everything that the worker started."""
        self._log("close")

    def _advance(self) -> Waiting | Ended:
        assert self._cell is not None
        ended = self._executor.behaviour(self._cell)
        if not self._rounds_left or not isinstance(ended.outcome, Passed):
            return ended
        seconds = ended.record.round_s if ended.record is not None else ()
        return Waiting(seconds[(self._rounds - 1) % len(seconds)] if seconds and self._rounds else None)

    def _log(self, what: str) -> None:
        self._executor.log.append(f"{what} {self._name}")
