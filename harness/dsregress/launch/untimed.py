"""Untimed cells, in parallel, wherever they have room.

A worker continues with its own environment while that has cells left, and is then closed, so that a sweep over many releases
does not hold them all in memory.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple

from dsregress.launch.contract import Cluster, Ended, Lost, RunPlan, Waiting, Worker
from dsregress.launch.schedule import MOST_LANES, TRIES, Event, Finished, Rerun, Started, given_up, merged
from dsregress.launch.workers import WorkerKey, worker_key
from dsregress.model import Cell, Environment

UNTIMED = RunPlan(warmup_rounds=0, rounds=0)


def run_parallel(
    cluster: Cluster,
    cells: Sequence[Cell],
    environment_of: Callable[[Cell], Environment],
    plan_of: Callable[[Cell], RunPlan] = lambda cell: UNTIMED,
) -> Iterator[Event]:
    """Yield the events of the untimed part of each cell, as many at a time as the cluster has room for."""
    queue = CellQueue(cells, shared=cluster.shares_environments)
    at_once = max(1, cluster.workers_at_once())
    slots = Slots(at_once)

    def lane() -> Generator[Event, None, None]:
        key: WorkerKey | None = None
        worker: Worker | None = None
        while (turn := queue.take(key)) is not None:
            cell = turn.cell
            try:
                if worker is not None and worker_key(cell) != key:
                    worker.close()
                    worker = None
                key = worker_key(cell)
                if worker is None:
                    worker = cluster.worker_for(environment_of(cell), cell)
                    worker.open()
                    worker.wait_until_open()  # while other cells run
                turn.before.wait()
                with slots.taken(cluster.slots(cell)):
                    turn.begun.set()
                    yield Started(cell)
                    yield Finished(cell, untimed(worker, cell, plan_of(cell)))
            except Lost as lost:
                assert worker is not None
                worker.close()
                worker = None
                ended = queue.put_back(cell, lost)
                yield Rerun(cell, str(lost))
                if ended is not None:
                    yield Finished(cell, ended)
            finally:
                turn.begun.set()
        if worker is not None:
            worker.close()  # on an error the cluster is closed, which ends its workers at once

    return merged([lane() for _ in range(min(at_once, queue.most_workers, MOST_LANES))])


def untimed(worker: Worker, cell: Cell, plan: RunPlan = UNTIMED) -> Ended:
    """Run the untimed part of a cell alone."""
    state = worker.start(cell, plan)
    return worker.stop() if isinstance(state, Waiting) else state


class Turn(NamedTuple):
    """A cell that a worker takes: environments begin in their order, whichever worker opens first."""

    cell: Cell
    before: threading.Event  #: set when the environment before it has begun
    begun: threading.Event


class CellQueue:
    """Waiting cells, by the worker they need. For many threads."""

    def __init__(self, cells: Sequence[Cell], *, shared: bool) -> None:
        """Queue the cells. ``shared``: several workers may take cells of one environment."""
        self._shared = shared
        self._left: dict[WorkerKey, deque[Cell]] = {}
        for cell in cells:
            self._left.setdefault(worker_key(cell), deque()).append(cell)
        self.most_workers = len(cells) if shared else len(self._left)
        self._workers: Counter[WorkerKey] = Counter()
        self._losses: Counter[Cell] = Counter()
        self._begun = threading.Event()
        self._begun.set()
        self._lock = threading.Lock()

    def take(self, key: WorkerKey | None) -> Turn | None:
        """Return the next cell for a worker with this key (None: not open yet); None if no cell is left for it.

        Its own environment comes first, then one without a worker, then, if environments are shared, the one with the most
        cells for each of its workers.
        """
        with self._lock:
            begun = threading.Event()
            if key is not None and self._left[key]:
                before = threading.Event()
                before.set()
                return Turn(self._left[key].popleft(), before, begun)
            waiting = [other for other, cells in self._left.items() if cells]
            free = [other for other in waiting if not self._workers[other]]
            if key is not None:
                self._workers[key] -= 1
            if free:
                chosen = free[0]
            elif waiting and self._shared:
                chosen = max(waiting, key=lambda other: len(self._left[other]) / (self._workers[other] + 1))
            else:
                return None
            self._workers[chosen] += 1
            before, self._begun = self._begun, begun
            return Turn(self._left[chosen].popleft(), before, begun)

    def put_back(self, cell: Cell, lost: Lost) -> Ended | None:
        """Put back a cell that has lost its machine. Return its end if it lost one too many."""
        with self._lock:
            self._losses[cell] += 1
            if self._losses[cell] >= TRIES:
                return given_up(lost)
            self._left[worker_key(cell)].appendleft(cell)
            return None


class Slots:
    """A number of slots, of which a cell may take several. First come, first served: small cells that come later do not keep
    a large one waiting."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._queue: list[object] = []
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def taken(self, wanted: int) -> Iterator[None]:
        """Hold ``wanted`` slots, or all if fewer exist, within the block; wait for its turn first."""
        wanted, mine = min(wanted, self._count), object()
        with self._changed:
            self._queue.append(mine)
            self._changed.wait_for(lambda: self._queue[0] is mine and self._free >= wanted)
            self._queue.pop(0)
            self._free -= wanted
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._free += wanted
                self._changed.notify_all()
