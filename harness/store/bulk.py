"""Much work of one kind on all processors, with its results in the order of the work.

Python reads and decodes files on one processor at a time, and 100,000 results are worth more.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from harness.collecting import collector_paused

_S = TypeVar("_S")
_T = TypeVar("_T")

#: Items handed out at once, and from how many on processes are worth their start (a twentieth of a second).
_AT_ONCE = 1_000
_MANY = 2_000


def in_order(work: Callable[[list[_S]], _T], families: Iterable[Sequence[_S]]) -> Iterator[_T]:
    """``work`` of the items of some families at a time, in their order; a family stays together.

    ``work`` must be picklable, and so must what it returns. Processes are forked, so that they start at once; where
    this one has threads, which may hold locks, it works alone.
    """
    batches = list(_batches(families))
    processors = len(os.sched_getaffinity(0))
    if sum(map(len, batches)) < _MANY or processors < 2 or threading.active_count() > 1:
        with collector_paused():
            yield from map(work, batches)
        return
    with collector_paused(), multiprocessing.get_context("fork").Pool(processors, _ready) as pool:
        yield from pool.imap(work, batches)
        pool.close()
        pool.join()


def _ready() -> None:
    """In a new process: it ends when it is told to.

    A handler of ours that it inherited would make an exception of SIGTERM, which may leave a lock of the pool taken,
    and everybody waiting for it. Ctrl-C is for the process that started it.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()


def _batches(families: Iterable[Sequence[_S]]) -> Iterator[list[_S]]:
    batch: list[_S] = []
    for family in families:
        batch += family
        if len(batch) >= _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
