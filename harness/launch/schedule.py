"""Who runs when: cells whose time is compared go side by side, the others one stack beside another.

Workers are opened a few ahead, because importing a framework takes seconds and machines have more than one core.
"""

from __future__ import annotations

import collections
import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

import msgspec

from harness.launch.contract import Ended, RunPlan, Waiting, Worker
from harness.model import Cell


class Started(msgspec.Struct, frozen=True):
    """A cell has begun."""

    cell: Cell


class RoundStarted(msgspec.Struct, frozen=True):
    """A cell is about to run a timed round (the first has number 1)."""

    cell: Cell
    number: int


class Finished(msgspec.Struct, frozen=True):
    """A cell has ended."""

    cell: Cell
    ended: Ended


class Rerun(msgspec.Struct, frozen=True):
    """A cell that had begun begins again, on another machine."""

    cell: Cell
    why: str


Event = Started | RoundStarted | Finished | Rerun

T = TypeVar("T")


def open_all(workers: Sequence[Worker], at_once: int) -> None:
    """Open the workers, ``at_once`` of them importing at any time."""
    for index, worker in enumerate(workers):
        if index >= at_once:
            workers[index - at_once].wait_until_open()
        worker.open()
    for worker in workers:
        worker.wait_until_open()


def interleave(members: Sequence[tuple[Cell, Worker]], plan: RunPlan, at_once: int = 1) -> Generator[Event, None, None]:
    """All cells do their untimed part, ``at_once`` of them at a time, then take turns: A B C, B C A, C A B.

    What is exact does not depend on what else runs. In the timed part one cell runs at a time: whatever slows the machine
    down for a while slows all of them, and no cell always runs after the same other one.
    """
    waiting = yield from _untimed(members, plan, at_once)
    number = 0
    while waiting:
        first = number % len(waiting)
        number += 1
        for member in [*waiting[first:], *waiting[:first]]:
            cell, worker = member
            yield RoundStarted(cell, number)
            state = worker.round()
            if isinstance(state, Ended):
                waiting.remove(member)
                yield Finished(cell, state)


def _untimed(
    members: Sequence[tuple[Cell, Worker]], plan: RunPlan, at_once: int
) -> Generator[Event, None, list[tuple[Cell, Worker]]]:
    """Run the untimed parts; returns the members that wait for their rounds, in order."""
    waiting: set[str] = set()
    running: dict[Future[Waiting | Ended], Cell] = {}
    left = iter(members)
    pool = ThreadPoolExecutor(max_workers=max(1, at_once), thread_name_prefix="untimed")
    try:
        while True:
            while len(running) < max(1, at_once) and (member := next(left, None)) is not None:
                cell, worker = member
                yield Started(cell)
                running[pool.submit(worker.start, cell, plan)] = cell
            if not running:
                return [member for member in members if member[0].id in waiting]
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                state = future.result()
                if isinstance(state, Ended):
                    yield Finished(cell, state)
                else:
                    waiting.add(cell.id)
    finally:  # whoever interrupts us kills the workers, and with that their threads
        pool.shutdown(wait=False, cancel_futures=True)


class Slots:
    """So many things at once, some of which count for several. First come, first served: a large one is not kept waiting
    by small ones that came later."""

    def __init__(self, count: int) -> None:
        self._count = self._free = count
        self._queue: list[object] = []
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def taken(self, wanted: int) -> Iterator[None]:
        """Holds ``wanted`` slots, or all of them where there are fewer; waits for its turn."""
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


def run_parallel(
    jobs: Sequence[tuple[Worker, Sequence[Cell]]],
    at_once: int,
    needs: Callable[[Cell], int] = lambda _: 1,
) -> Iterator[Event]:
    """Each job runs the untimed part of its cells one after another on a worker of its own, ``at_once`` jobs at a time,
    and closes it. A cell that ``needs`` several of these places waits until they are free.

    The worker may be open already. One that is not is opened when its turn comes. Jobs begin in their order, whichever
    worker opens first.
    """
    begun = [threading.Event() for _ in jobs]
    left = collections.deque(enumerate(jobs))
    slots = Slots(at_once)

    def lane() -> Generator[Event, None, None]:
        while left:
            try:
                index, (worker, cells) = left.popleft()
            except IndexError:  # another lane was faster
                return
            yield from _job(worker, cells, slots, needs, begun[max(0, index - 1) : index], begun[index])

    yield from merged([lane() for _ in range(min(at_once, len(jobs)))])


def _job(
    worker: Worker,
    cells: Sequence[Cell],
    slots: Slots,
    needs: Callable[[Cell], int],
    before: Sequence[threading.Event],
    begun: threading.Event,
) -> Generator[Event, None, None]:
    """``before``: what has to have begun, or ended, before this one does."""
    try:
        if cells:
            worker.open()
            worker.wait_until_open()  # beside the others' cells
        for other in before:
            other.wait()
        for cell in cells:
            with slots.taken(needs(cell)):
                begun.set()
                yield Started(cell)
                yield Finished(cell, untimed(worker, cell))
    finally:
        begun.set()
        worker.close()


def untimed(worker: Worker, cell: Cell) -> Ended:
    """The untimed part of a cell, and no other."""
    state = worker.start(cell, RunPlan(warmup_rounds=0, rounds=0))
    return state if isinstance(state, Ended) else worker.stop()


def merged(lanes: Sequence[Generator[T, None, None]]) -> Iterator[T]:
    """What the lanes yield, as it comes. Each is walked by a thread of its own; it is closed at its next step when nobody
    listens any more, and the first error of any is raised here."""
    told: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()
    stopped = threading.Event()

    def walk(lane: Generator[T, None, None]) -> None:
        try:
            with contextlib.closing(lane):
                for one in lane:
                    if stopped.is_set():
                        return
                    told.put((one,))
        except BaseException as error:
            told.put(error)
        finally:
            told.put(None)

    threads = [
        threading.Thread(target=walk, args=(lane,), name=f"lane-{n}", daemon=True) for n, lane in enumerate(lanes)
    ]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            one = told.get()
            if one is None:
                running -= 1
            elif isinstance(one, BaseException):
                raise one
            else:
                yield one[0]
    finally:
        stopped.set()
