"""Many tasks of one kind on all CPUs, with their results in the order of the tasks.

Python reads and decodes files on one CPU at a time, which is too slow for 100,000 results.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from dsregress.errors import ResultsError

_S = TypeVar("_S")
_T = TypeVar("_T")

#: Items in a batch, if each takes as long as reading and judging a result.
RESULTS = 1_000

#: Batches for each CPU, so that all finish at about the same time.
_BATCHES = 8


def map_families(
    work: Callable[[list[_S]], _T], families: Iterable[Sequence[_S]], batch: int = RESULTS
) -> Iterator[_T]:
    """Yield ``work`` of the items of some families at a time, in their order; a family stays together.

    ``batch`` is the number of items worth a task of their own, about a twentieth of a second's work. ``work`` and its
    results must be picklable. Processes are forked, so that they start at once and inherit this process's memory; if this
    process has threads, which may hold locks, it works alone. Raise ResultsError if one of them is killed.
    """
    families = list(families)
    processors = _processors()
    count = sum(map(len, families))
    if count < 2 * batch or processors < 2 or threading.active_count() > 1:
        yield from map(work, _batches(families, batch))
        return
    batches = _batches(families, max(batch, count // (_BATCHES * processors)))
    context = multiprocessing.get_context("fork")
    # No multiprocessing.Pool: it ends its processes by signals, which can leave its locks taken for ever.
    pool = ProcessPoolExecutor(processors, mp_context=context, initializer=_ready)
    try:
        yield from pool.map(work, batches)
    except BrokenProcessPool:
        raise ResultsError(
            "a process that read results was killed", where="results", hint="free memory and try again"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _processors() -> int:
    """Return the number of CPUs that this process may use; all of them if the system does not restrict processes (macOS)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _ready() -> None:
    """Prepare a new process: Ctrl-C is for the parent, and none of its handlers runs here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    gc.disable()  # a third of the time of reading: it walks the results of a batch, and none of them is garbage


def _batches(families: Iterable[Sequence[_S]], least: int) -> Iterator[list[_S]]:
    batch: list[_S] = []
    for family in families:
        batch += family
        if len(batch) >= least:
            yield batch
            batch = []
    if batch:
        yield batch
