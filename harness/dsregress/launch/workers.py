"""The workers of one machine, and the memory and cores that they take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from dsregress.launch.contract import Worker
from dsregress.model import Cell, Environment

#: Memory of one server with its ranks while a cell is open, of a server that has only imported its framework, and of the
#: simulation of the largest scenario, at most.
OPEN_CELL_BYTES = 1 << 30
IDLE_SERVER_BYTES = 1 << 29
SIM_BYTES = 2 << 30

#: Memory of a rank in huge pages, at most, which it does not share with its server; a tiny model has 0.15 GB in them.
OWN_RANK_BYTES = 1 << 29

#: Cells with the same key run on one worker.
WorkerKey = tuple[str, str, str]


def worker_key(cell: Cell) -> WorkerKey:
    """Return the key of the worker that a cell needs. Importing a framework takes seconds, and is the same for ``cpu`` and
    ``sim``. Scenarios that need packages have an environment of their own."""
    return cell.environment_stack.id, "cpu" if cell.device == "sim" else cell.device, cell.framework


#: More cores than any machine has.
_ALL_CORES = 1 << 20


def rank_count(cell: Cell) -> int:
    """Return the number of processes that train in a cell, on all machines together."""
    return int(cell.parameters.get("world_size", 1))


def cores(cell: Cell) -> int:
    """Return the number of cores that an untimed cell takes: one for two ranks, which wait for each other half of the time.
    Three releases of the default set took 46.0 and 47.3 s on two cores, and 51.9 and 51.7 s with a core for each rank. A
    simulation is one process. On GPUs one cell runs at a time, so that its ranks have their memory to themselves."""
    if cell.device == "cuda":
        return _ALL_CORES
    return 1 if cell.device == "sim" else max(1, rank_count(cell) // 2)


class Workers:
    """One worker for each key, made when it is first needed. For many threads."""

    def __init__(self, make: Callable[[Environment, str, str], Worker]) -> None:
        """Make no worker yet. ``make`` is `dsregress.launch.contract.Executor.worker` of the machine."""
        self._make = make
        self._workers: dict[WorkerKey, Worker] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._workers)

    def worker(self, environment: Environment, cell: Cell) -> Worker:
        """Return the worker for cells like this one."""
        key = worker_key(cell)
        with self._lock:
            if key not in self._workers:
                self._workers[key] = self._make(environment, cell.device, cell.framework)
            return self._workers[key]

    def close(self, keep: Collection[WorkerKey] = ()) -> None:
        """Close all workers but those with these keys. Two threads may call it: the one that ends a run, and one whose
        session has ended."""
        with self._lock:
            closed = [self._workers.pop(key) for key in list(self._workers) if key not in keep]
        for worker in closed:
            worker.close()
