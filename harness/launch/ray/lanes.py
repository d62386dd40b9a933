"""Who runs where on an executor with several machines: timed workloads each on a machine that is held for it, as many at a
time as there are machines; then everything else, wherever there is room.

A machine that is lost takes with it what it has not told: that runs again elsewhere. A cell's end is told once. Where a
cell has lost its machine `TRIES` times, that is its end, as it may be the cell that brings machines down.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence

from harness.launch import schedule
from harness.launch.contract import Cluster, Ended, Lost, Machine, Worker
from harness.launch.schedule import Event, Finished, Rerun, Started
from harness.model import Cell, Failed, Hardware, Passed

#: How many machines a cell may lose.
TRIES = 3

#: More threads of ours than this gain nothing: results are stored one at a time.
_MOST_LANES = 1000

#: A timed session: its events, each with the name of the session, on a machine with this hardware.
Session = Callable[[Sequence[Cell], Callable[[Cell], Worker], Hardware], Iterator[tuple[Event, str]]]


def timed(
    cluster: Cluster,
    workloads: Sequence[Sequence[Cell]],
    session: Session,
    worker: Callable[[Machine, Cell], Worker],
    same: Callable[[Cell], Hashable],
) -> Iterator[tuple[Event, str]]:
    """Each workload in sessions on a machine that is held for it. Cells for which ``same`` is the same share a worker of
    that machine. What passed is told when its session has ended: until then, its times have no pair."""
    left = deque(workloads)
    at_once = max((cluster.machines_at_once(members[0]) for members in workloads), default=0)

    def lane() -> Generator[tuple[Event, str], None, None]:
        held = _Held(cluster, worker, same)
        try:
            while left:
                try:
                    members = left.popleft()
                except IndexError:  # another lane was faster
                    return
                yield from _until_told(members, held, session)
        finally:
            held.close()

    return schedule.merged([lane() for _ in range(min(max(1, at_once), len(workloads), _MOST_LANES))])


def _until_told(members: Sequence[Cell], held: _Held, session: Session) -> Generator[tuple[Event, str], None, None]:
    """The session of a workload; where its machine is lost, again with those that have no end yet."""
    open_ = list(members)
    for attempt in range(1, TRIES + 1):
        passed: list[tuple[Event, str]] = []
        try:
            machine = held.machine_for(open_[0])
            for told in session(open_, held.worker, machine.hardware):
                event, _ = told
                if isinstance(event, Finished) and isinstance(event.ended.outcome, Passed):
                    passed.append(told)
                    continue
                if isinstance(event, Finished) and event.cell in open_:
                    open_.remove(event.cell)
                yield told
            yield from passed
            return
        except Lost as lost:
            held.close()
            for cell in open_:
                if attempt < TRIES:
                    yield Rerun(cell, str(lost)), ""
                else:
                    yield Finished(cell, _given_up(lost)), ""


class _Held:
    """The machine that a lane holds, and the workers on it."""

    def __init__(
        self, cluster: Cluster, worker: Callable[[Machine, Cell], Worker], same: Callable[[Cell], Hashable]
    ) -> None:
        self._cluster = cluster
        self._open = worker
        self._same = same
        self._machine: Machine | None = None
        self._workers: dict[Hashable, Worker] = {}

    def machine_for(self, cell: Cell) -> Machine:
        """The one that is held, where the cell fits; else another one."""
        if self._machine is not None and not self._machine.fits(cell):
            self.close()
        if self._machine is None:
            self._machine = self._cluster.hold(cell)
        return self._machine

    def worker(self, cell: Cell) -> Worker:
        assert self._machine is not None
        key = self._same(cell)
        if key not in self._workers:
            self._workers[key] = self._open(self._machine, cell)
        return self._workers[key]

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        if self._machine is not None:
            self._machine.close()
            self._machine = None


def untimed(
    cluster: Cluster, cells: Sequence[Cell], worker: Callable[[Cell], Worker], same: Callable[[Cell], Hashable]
) -> Iterator[Event]:
    """The untimed part of each cell, as many at a time as there is room for. A worker goes on with its own environment
    while that has cells left; then its place goes to the one that has most of them for each worker."""
    shelf = Shelf(cells, same)

    def lane() -> Generator[Event, None, None]:
        at: Hashable = None
        current: Worker | None = None
        try:
            while (cell := shelf.take(at)) is not None:
                if current is not None and same(cell) != at:
                    current.close()
                    current = None
                at, current = same(cell), current or worker(cell)
                yield Started(cell)
                try:
                    ended: Ended | None = schedule.untimed(current, cell)
                except Lost as lost:
                    current.close()
                    current = None
                    ended = shelf.put_back(cell, lost)
                    yield Rerun(cell, str(lost))
                if ended is not None:
                    yield Finished(cell, ended)
        finally:
            if current is not None:
                current.close()

    at_once = min(max(1, cluster.workers_at_once()), len(cells), _MOST_LANES)
    return schedule.merged([lane() for _ in range(at_once)])


class Shelf:
    """Cells that wait, by environment. For many threads."""

    def __init__(self, cells: Sequence[Cell], same: Callable[[Cell], Hashable]) -> None:
        self._same = same
        self._left: dict[Hashable, deque[Cell]] = defaultdict(deque)
        for cell in cells:
            self._left[same(cell)].append(cell)
        self._at: Counter[Hashable] = Counter()
        self._lost: Counter[Cell] = Counter()
        self._lock = threading.Lock()

    def take(self, at: Hashable) -> Cell | None:
        """The next cell for a worker that is at ``at`` (None: at none yet), None where all are taken."""
        with self._lock:
            if not self._left.get(at):
                self._at[at] -= 1
                at = max(self._left, key=lambda key: len(self._left[key]) / (max(0, self._at[key]) + 1))
                self._at[at] += 1
            waiting = self._left[at]
            return waiting.popleft() if waiting else None

    def put_back(self, cell: Cell, lost: Lost) -> Ended | None:
        """Of a cell that has lost its machine: its end, where that was once too often."""
        with self._lock:
            self._lost[cell] += 1
            if self._lost[cell] >= TRIES:
                return _given_up(lost)
            self._left[self._same(cell)].appendleft(cell)
            return None


def _given_up(lost: Lost) -> Ended:
    return Ended(outcome=Failed(stage="harness", signature=f"lost its machine {TRIES} times", detail=str(lost)))
