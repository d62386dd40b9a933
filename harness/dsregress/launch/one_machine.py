"""An executor without machines of its own as a cluster of one: the machine that this process runs on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dsregress.launch.contract import Executor, Worker
from dsregress.launch.workers import IDLE_SERVER_BYTES, SIM_BYTES, Workers, cores, worker_key
from dsregress.model import Cell, Environment, Hardware
from dsregress.system import other_work


class OneMachine:
    """See `dsregress.launch.contract.Cluster`. Workers stay open from the timed sessions to the untimed cells."""

    #: Another import of a framework takes memory, and longer than most cells.
    shares_environments = False

    def __init__(
        self, executor: Executor, hardware: Hardware, busy_cores: Callable[[], float] = other_work.busy_cores
    ) -> None:
        self.hardware = hardware
        self.busy_cores = busy_cores
        self._executor = executor
        self._workers = Workers(executor.worker)

    def machines_at_once(self, cell: Cell) -> int:
        """Return the number of machines that can be held at once for cells like this one."""
        return 1

    def hold(self, cell: Cell) -> ThisMachine:
        """Wait for a machine for timed sessions, and return it."""
        return ThisMachine(self)

    def workers_at_once(self) -> int:
        """Return the number of slots for untimed cells."""
        free_bytes = self.hardware.memory_bytes - len(self._workers) * IDLE_SERVER_BYTES
        return max(1, min(self.hardware.cores, free_bytes // SIM_BYTES))

    def slots(self, cell: Cell) -> int:
        """Return the number of slots that an untimed cell takes."""
        return cores(cell)

    def worker_for(self, environment: Environment, cell: Cell) -> Worker:
        """Return a worker for untimed cells like this one."""
        return self._workers.worker(environment, cell)

    def keep_workers_for(self, cells: Sequence[Cell]) -> None:
        """Close workers that none of these cells needs."""
        self._workers.close(keep={worker_key(cell) for cell in cells})

    def close(self) -> None:
        """End nothing: workers are closed by those who opened them."""
        self._executor.close()  # first: a server that was killed need not be waited for
        self._workers.close()


class ThisMachine:
    """See `dsregress.launch.contract.Machine`."""

    def __init__(self, cluster: OneMachine) -> None:
        self._cluster = cluster

    @property
    def hardware(self) -> Hardware:
        """Return the hardware of the machine."""
        return self._cluster.hardware

    def busy_cores(self) -> float:
        """Return the number of cores that other work keeps busy."""
        return self._cluster.busy_cores()

    def fits(self, cell: Cell) -> bool:
        """Return True if the cell can run on the machine."""
        return True

    def worker(self, environment: Environment, cell: Cell) -> Worker:
        """Return the worker for cells like this one."""
        return self._cluster.worker_for(environment, cell)

    def release(self) -> None:
        """Keep the workers: untimed cells may need them."""
