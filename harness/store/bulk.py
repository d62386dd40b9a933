"""Much work of one kind on all processors, with its results in the order of the work.

Python reads and decodes files on one processor at a time, and 100,000 results are worth more.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import mmap
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

import msgspec

from harness.errors import ResultsError
from harness.system.collecting import collector_paused

_S = TypeVar("_S")

#: Items worth being handed out at once, where each takes as long as a result takes to be read and judged.
RESULTS = 1_000

#: Much work is handed out in this many parts for each processor, so that all are done at about the same time, but in parts
#: of no more than so many batches. A part says once what its items share; each that is held costs a file descriptor.
_PARTS, _LARGEST_BATCHES = 8, 5


def in_order(
    work: Callable[[list[_S]], bytes], families: Iterable[Sequence[_S]], batch: int = RESULTS
) -> Iterator[msgspec.Raw]:
    """``work`` of the items of some families at a time, in their order; a family stays together.

    ``batch`` is how many items are worth being handed out at once, a twentieth of a second's work; two of them are worth
    the start of processes. ``work`` must be picklable. Processes are forked, so that they start at once; where this one
    has threads, which may hold locks, it works alone. What comes of them is in memory that they share, and goes with the
    last that refers to it. Raises ResultsError where one of them is killed, or where memory is short.
    """
    families = list(families)
    processors = len(os.sched_getaffinity(0))
    count = sum(map(len, families))
    if count < 2 * batch or processors < 2 or threading.active_count() > 1:
        with collector_paused():
            yield from map(msgspec.Raw, map(work, _batches(families, batch)))
        return
    batches = _batches(families, min(max(batch, count // (_PARTS * processors)), _LARGEST_BATCHES * batch))
    context = multiprocessing.get_context("fork")
    with collector_paused(), _shared_file() as shared:
        # No multiprocessing.Pool: it ends its processes by signals, which can leave its locks taken for ever.
        pool = ProcessPoolExecutor(processors, mp_context=context, initializer=_ready)
        try:
            for start, length in pool.map(functools.partial(_share, work, shared), batches):
                yield _part(shared, start, length)
        except BrokenProcessPool:
            raise ResultsError("a process that read results was killed", where="results", hint=_HINT) from None
        except _NoRoom as error:
            raise ResultsError(f"no room for what was read: {error}", where="results", hint=_HINT) from None
        finally:
            pool.shutdown(cancel_futures=True)


_HINT = "free some memory and try again"


class _NoRoom(Exception):
    """Why what processes share cannot be shared."""


@contextlib.contextmanager
def _shared_file() -> Iterator[int]:
    """A file in memory that forked processes leave their results in: they need not be copied through pipes, and what nobody
    looks at is never touched again."""
    # Many Pythons, uv's among them, are built for systems that are too old to have it.
    named = getattr(os, "memfd_create", None)
    file = named("results") if named is not None else _temporary_file()
    try:
        yield file
    finally:
        os.close(file)  # parts of it that are held stay


def _temporary_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _share(work: Callable[[list[_S]], bytes], shared: int, batch: list[_S]) -> tuple[int, int]:
    """Leaves the result of ``work`` in the shared file; returns where it starts, and its length. Raises _NoRoom."""
    data = work(batch)
    pages = -(-len(data) // mmap.ALLOCATIONGRANULARITY)
    whole = data.ljust(pages * mmap.ALLOCATIONGRANULARITY, b"\0")  # each starts where a page does
    try:
        # Opened anew: the position in the inherited one is that of all processes. Appending is atomic.
        with open(f"/proc/self/fd/{shared}", "ab", buffering=0) as end:
            written = end.write(whole)
            start = end.tell() - len(whole)
    except OSError as error:
        raise _NoRoom(error.strerror or str(error)) from None
    if written != len(whole):
        raise _NoRoom(f"{len(whole) - written} bytes are too many")
    return start, len(data)


def _part(shared: int, start: int, length: int) -> msgspec.Raw:
    try:
        return msgspec.Raw(mmap.mmap(shared, length, offset=start, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:  # an odd place is what a write before it left that found no room
        raise _NoRoom(str(error)) from None


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
