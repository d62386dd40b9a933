"""Much work of one kind on all processors, with its results in the order of the work.

Python reads and decodes files on one processor at a time, and 100,000 results are worth more.
"""

from __future__ import annotations

import functools
import gc
import mmap
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import TypeVar

import msgspec

from harness.collecting import collector_paused
from harness.errors import ResultsError

_S = TypeVar("_S")

#: Items worth being handed out at once, where each takes as long as a result takes to be read and judged.
RESULTS = 1_000

#: Of much work each processor gets this many parts, so that all are done at about the same time. Larger parts say once
#: what their items share, up to a size.
_PARTS, _LARGEST = 8, 5


def in_order(
    work: Callable[[list[_S]], bytes], families: Iterable[Sequence[_S]], batch: int = RESULTS
) -> Iterator[msgspec.Raw]:
    """``work`` of the items of some families at a time, in their order; a family stays together.

    ``batch`` is how many items are worth being handed out at once, a twentieth of a second's work; two of them are worth
    the start of processes. ``work`` must be picklable. Processes are forked, so that they start at once; where this one
    has threads, which may hold locks, it works alone. Raises ResultsError where one of them is killed.
    """
    families = list(families)
    processors = len(os.sched_getaffinity(0))
    count = sum(map(len, families))
    if count < 2 * batch or processors < 2 or threading.active_count() > 1:
        with collector_paused():
            yield from map(msgspec.Raw, map(work, _batches(families, batch)))
        return
    batches = _batches(families, min(max(batch, count // (_PARTS * processors)), _LARGEST * batch))
    context = multiprocessing.get_context("fork")
    with collector_paused(), _Shared() as shared:
        # No multiprocessing.Pool: it ends its processes by signals, which can leave its locks taken for ever.
        pool = ProcessPoolExecutor(processors, mp_context=context, initializer=_ready)
        try:
            for start, length in pool.map(functools.partial(_share, work, shared.file), batches):
                yield shared.read(start, length)
        except BrokenProcessPool:
            raise ResultsError(
                "a process that read results was killed", where="results", hint="free some memory and try again"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


class _Shared:
    """What processes leave for the one that forked them: a file that only memory has, so that it need not be copied
    through pipes, and what nobody looks at is never touched again."""

    def __init__(self) -> None:
        self.file = os.memfd_create("results")

    def __enter__(self) -> _Shared:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.file)  # what was read stays as long as somebody holds it

    def read(self, start: int, length: int) -> msgspec.Raw:
        return msgspec.Raw(mmap.mmap(self.file, length, offset=start, access=mmap.ACCESS_READ))


def _share(work: Callable[[list[_S]], bytes], file: int, batch: list[_S]) -> tuple[int, int]:
    """Leaves the result of ``work`` in a shared file; returns where it starts, and its length."""
    data = work(batch)
    # Opened anew: the position in the inherited one is the same for all processes. Appending is atomic.
    with open(f"/proc/self/fd/{file}", "ab", buffering=0) as end:
        whole = data.ljust(-(-len(data) // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY)
        written = end.write(whole)
        if written != len(whole):
            raise MemoryError(f"{len(whole) - written} bytes of results found no room")
        return end.tell() - len(whole), len(data)


def _ready() -> None:
    """In a new process: Ctrl-C is for the one that started it, and no handler of that one runs here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()


def _batches(families: Iterable[Sequence[_S]], least: int) -> Iterator[list[_S]]:
    batch: list[_S] = []
    for family in families:
        batch += family
        if len(batch) >= least:
            yield batch
            batch = []
    if batch:
        yield batch
