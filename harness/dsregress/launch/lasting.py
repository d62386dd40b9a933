"""A cluster whose workers stay open from one run to the next, for questions that follow from each other's answers: each runs
a few cells of the same environments, which import their frameworks once."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.launch.contract import Cluster, Ended, Machine, RunPlan, Waiting, Worker
from dsregress.model import Cell, Environment, Failed, MachineFault, Outcome, OutOfMemory, TimedOut


class Lasting:
    """See `dsregress.launch.contract.Cluster`. Workers that a run closes stay open until `end`."""

    def __init__(self, cluster: Cluster) -> None:
        self.shares_environments = cluster.shares_environments
        self._cluster = cluster

    def end(self) -> None:
        """Close everything, from any thread."""
        self._cluster.close()

    def workers_at_once(self) -> int:
        """Return the number of slots for untimed cells."""
        return self._cluster.workers_at_once()

    def slots(self, cell: Cell) -> int:
        """Return the number of slots that an untimed cell takes."""
        return self._cluster.slots(cell)

    def worker_for(self, environment: Environment, cell: Cell) -> Worker:
        """Return a worker for untimed cells like this one."""
        return _StaysOpen(self._cluster.worker_for(environment, cell))

    def keep_workers_for(self, cells: Sequence[Cell]) -> None:
        """Keep all workers."""

    def close(self) -> None:
        """Keep everything open for the next run."""

    def machines_at_once(self, cell: Cell) -> int:
        """Return the number of machines that can be held at once for cells like this one."""
        return self._cluster.machines_at_once(cell)

    def hold(self, cell: Cell) -> Machine:
        """Wait for a machine for timed sessions, and return it."""
        return self._cluster.hold(cell)


class _StaysOpen:
    """A worker that the end of a run does not close, unless it could not import: the next run tries that anew."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._is_unusable = False

    def open(self) -> None:
        """Start importing the framework; return at once."""
        self._worker.open()

    def wait_until_open(self) -> None:
        """Wait until the framework is imported or cannot be."""
        self._worker.wait_until_open()

    def start(self, cell: Cell, plan: RunPlan) -> Waiting | Ended:
        """Run the untimed part of a cell."""
        begun = self._worker.start(cell, plan)
        self._is_unusable = isinstance(begun, Ended) and _ended_in_import(begun.outcome)
        return begun

    def round(self) -> Waiting | Ended:
        """Run one timed round of the waiting cell."""
        return self._worker.round()

    def stop(self) -> Ended:
        """End the waiting cell, which keeps its rounds."""
        return self._worker.stop()

    def close(self) -> None:
        """Close the worker only if it could not import."""
        if self._is_unusable:
            self._worker.close()


def _ended_in_import(outcome: Outcome) -> bool:
    match outcome:
        case Failed(stage=where) | TimedOut(stage=where) | MachineFault(stage=where) | OutOfMemory(phase=where):
            return where == "import"
    return False
