"""Much work of one kind on all processors, with its results in the order of the work.

Python reads and decodes files on one processor at a time, and 100,000 results are worth more.
"""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from harness.collecting import collector_paused

_S = TypeVar("_S")
_T = TypeVar("_T")

#: Items handed out at once, and from how many on processes are worth their start (a twentieth of a second).
_AT_ONCE = 500
_MANY = 2_000


def in_order(work: Callable[[list[_S]], _T], items: Iterable[_S]) -> Iterator[_T]:
    """``work`` of the items, some at a time, in their order. ``work`` must be picklable, and so must what it returns.

    Processes are forked, so that they start at once; where this one has threads, which may hold locks, it works alone.
    """
    left = iter(items)
    first = list(itertools.islice(left, _MANY))
    processors = len(os.sched_getaffinity(0))
    if len(first) < _MANY or processors < 2 or threading.active_count() > 1:
        with collector_paused():
            for some in itertools.chain(_some(first), _some(left)):
                yield work(some)
        return
    gc.freeze()  # what there is already is nothing that the forks' collector should walk
    with collector_paused(), multiprocessing.get_context("fork").Pool(processors, gc.disable) as pool:
        yield from pool.imap(work, itertools.chain(_some(first), _some(left)))
    gc.unfreeze()


def _some(items: Iterable[_S]) -> Iterator[list[_S]]:
    left = iter(items)
    while some := list(itertools.islice(left, _AT_ONCE)):
        yield some
