"""Shared parts of executors with any number of machines: events, timed cells that take turns, and lanes that run in
parallel.

Workers are opened a few ahead, because importing a framework takes seconds and machines have more than one core.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

import msgspec

from dsregress.launch.contract import Ended, Lost, RunPlan, Waiting, Worker
from dsregress.model import Cell, Failed
from dsregress.wording.names import outcome_text

_LOG = logging.getLogger(__package__)


class Started(msgspec.Struct, frozen=True):
    """A cell has started."""

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
    """A cell that had started runs again on another machine."""

    cell: Cell
    why: str


#: Most machines that a cell may lose.
TRIES = 3

#: More threads of ours than this gain nothing: results are stored one at a time.
MOST_LANES = 1000

Event = Started | RoundStarted | Finished | Rerun

T = TypeVar("T")


def log_event(event: Event) -> None:
    """Write the start and the end of a cell to the debug log."""
    match event:
        case Started(cell):
            _LOG.debug("%s: started", cell.id)
        case Rerun(cell, why):
            _LOG.debug("%s: started again: %s", cell.id, why)
        case Finished(cell, ended):
            _LOG.debug("%s: %s, %.1f s", cell.id, outcome_text(ended.outcome), ended.duration_s)


def given_up(lost: Lost) -> Ended:
    """Return the end of a cell that has lost every machine it was tried on."""
    return Ended(outcome=Failed(stage="harness", signature=f"lost its machine {TRIES} times", detail=str(lost)))


def open_all(workers: Sequence[Worker], at_once: int) -> None:
    """Open the workers, ``at_once`` of them importing at any time."""
    for index, worker in enumerate(workers):
        if index >= at_once:
            workers[index - at_once].wait_until_open()
        worker.open()
    for worker in workers:
        worker.wait_until_open()


class Turns(Protocol):
    """Decides in which rounds the cells of a session take part."""

    def enough(self, baseline: str, rounds: Mapping[str, Sequence[float]]) -> Collection[str]:
        """Return the cells (by id) that need no more rounds. Called after each round for the remaining cells; ``rounds`` are
        their seconds, without warm-up."""
        ...

    def end(self) -> None:
        """End the session's rounds."""


class Pace(Protocol):
    """Decides the number of rounds of sessions, which may be in different threads."""

    def session(self) -> Turns:
        """Return the turns of a session whose timed rounds begin."""
        ...


class AllRounds:
    """All rounds of the plan: a `Pace`, and the `Turns` of its sessions."""

    def session(self) -> Turns:
        """Return the turns of one session: all rounds of each cell."""
        return self

    def enough(self, baseline: str, rounds: Mapping[str, Sequence[float]]) -> Collection[str]:
        """Return no cell: each runs all its rounds."""
        return ()

    def end(self) -> None:
        """Do nothing."""


ALL_ROUNDS = AllRounds()


def interleave(
    members: Sequence[tuple[Cell, Worker]], plan: RunPlan, at_once: int = 1, pace: Pace = ALL_ROUNDS
) -> Generator[Event, None, None]:
    """Run the untimed part of all cells, ``at_once`` of them at a time, then let them take turns: A B C, B C A, C A B. The
    first is the baseline. ``pace`` may end a cell before it has run all rounds of the plan.

    Exact values do not depend on what else runs. In the timed part one cell runs at a time: a slower machine slows all of
    them, and no cell always runs after the same other one.
    """
    done = yield from _untimed(baseline_in_the_middle(members), plan, at_once)
    waiting = [member for member in members if member[0].id in done]
    turns = pace.session()  # also where no cell has got as far: what it would have had is left for others
    seconds: dict[str, list[float]] = {cell.id: [] for cell, _ in waiting}
    number = 0
    try:
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
                elif number > plan.warmup_rounds:
                    seconds[cell.id].append(state.round_s or math.nan)
            left = {cell.id: seconds[cell.id] for cell, _ in waiting}
            enough = turns.enough(members[0][0].id, left) if left and number > plan.warmup_rounds else ()
            for member in [member for member in waiting if member[0].id in enough]:
                waiting.remove(member)
                yield Finished(member[0], member[1].stop())
    finally:
        turns.end()


def baseline_in_the_middle(members: Sequence[T]) -> list[T]:
    """Return the order in which the members of a session start; the baseline is the first of ``members``.

    A process that starts early gets other memory than one that starts late. On a virtual machine, the first of ten took 2 to
    18 % longer in every round, the last one up to 3 % less (docs/benchmarks.md). If that were the baseline, every other
    release would look faster.
    """
    baseline, *others = members
    half = len(others) // 2
    return [*others[:half], baseline, *others[half:]]


def _untimed(members: Sequence[tuple[Cell, Worker]], plan: RunPlan, at_once: int) -> Generator[Event, None, set[str]]:
    """Run the untimed parts, in this order; return the cells (by id) that wait for their rounds."""
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
                return waiting
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                state = future.result()
                if isinstance(state, Ended):
                    yield Finished(cell, state)
                else:
                    waiting.add(cell.id)
    finally:  # on an interruption the workers are killed, which ends their threads
        pool.shutdown(wait=False, cancel_futures=True)


def merged(lanes: Sequence[Generator[T, None, None]]) -> Iterator[T]:
    """Yield the items of the lanes as they come. A thread walks each lane, and closes it at its next step once the caller
    has stopped iterating. The first error of a lane is raised here."""
    yielded: queue.SimpleQueue[tuple[T] | BaseException | None] = queue.SimpleQueue()
    stopped = threading.Event()

    def walk(lane: Generator[T, None, None]) -> None:
        try:
            with contextlib.closing(lane):
                for item in lane:
                    if stopped.is_set():
                        return
                    yielded.put((item,))
        except BaseException as error:  # of a lane's thread: the thread that reads raises it
            yielded.put(error)
        finally:
            yielded.put(None)

    threads = [
        threading.Thread(target=walk, args=(lane,), name=f"lane-{n}", daemon=True) for n, lane in enumerate(lanes)
    ]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            item = yielded.get()
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item[0]
    finally:
        stopped.set()
