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
        return 1

    def hold(self, cell: Cell) -> ThisMachine:
        return ThisMachine(self)

    def workers_at_once(self) -> int:
        free_bytes = self.hardware.memory_bytes - len(self._workers) * IDLE_SERVER_BYTES
        return max(1, min(self.hardware.cores, free_bytes // SIM_BYTES))

    def slots(self, cell: Cell) -> int:
        return cores(cell)

    def worker_for(self, environment: Environment, cell: Cell) -> Worker:
        return self._workers.worker(environment, cell)

    def keep_workers_for(self, cells: Sequence[Cell]) -> None:
        self._workers.close(keep={worker_key(cell) for cell in cells})

    def close(self) -> None:
        self._executor.close()  # first: a server that was killed need not be waited for
        self._workers.close()


class ThisMachine:
    """See `dsregress.launch.contract.Machine`."""

    def __init__(self, cluster: OneMachine) -> None:
        self._cluster = cluster

    @property
    def hardware(self) -> Hardware:
        return self._cluster.hardware

    def busy_cores(self) -> float:
        return self._cluster.busy_cores()

    def fits(self, cell: Cell) -> bool:
        return True

    def worker(self, environment: Environment, cell: Cell) -> Worker:
        return self._cluster.worker_for(environment, cell)

    def release(self) -> None:
        """Keep the workers: untimed cells may need them."""
