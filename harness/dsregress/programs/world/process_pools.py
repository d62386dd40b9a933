"""Process pools and data loaders with no more processes than the machine has processors. ``Pool(48)`` is meant for a
cluster's nodes; here each process is a fork of a program with torch in it, and they run out of memory. What they compute
does not depend on their number.

A data loader whose rows are drawn by their indices has one worker: of several, one is sometimes ahead, and its batches wait
in the program's memory, in one run and not in the next. Those of a stream have a share of it each, and stay.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing.pool
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

from torch.utils.data import DataLoader, IterableDataset

from vgpu.replacing import Patches


def processor_count() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


@contextlib.contextmanager
def capped_pools() -> Iterator[None]:
    """Cap process pools and data loaders' workers at the number of CPUs within the block. Thread pools are unaffected."""

    def capped(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(self: object, processes: int | None = None, *args: object, **options: object) -> None:
            is_count = isinstance(processes, int) and not isinstance(self, multiprocessing.pool.ThreadPool)
            original(self, min(processes, processor_count()) if is_count and processes else processes, *args, **options)

        return __init__

    def capped_executor(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(self: object, max_workers: int | None = None, *args: object, **options: object) -> None:
            original(self, min(max_workers, processor_count()) if max_workers else max_workers, *args, **options)

        return __init__

    def capped_loader(original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def __init__(self: DataLoader[object], *args: object, **options: object) -> None:
            original(self, *args, **options)
            most = processor_count() if isinstance(self.dataset, IterableDataset) else 1
            self.num_workers = min(self.num_workers, most)

        return __init__

    with Patches("no more processes than processors") as patches:
        pool = multiprocessing.pool.Pool
        patches.replace(pool, "__init__", capped(pool.__init__))
        patches.replace(ProcessPoolExecutor, "__init__", capped_executor(ProcessPoolExecutor.__init__))
        patches.replace(DataLoader, "__init__", capped_loader(DataLoader.__init__))
        yield
