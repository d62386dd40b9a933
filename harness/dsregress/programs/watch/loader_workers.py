"""The worker processes of data loaders that get no rows: a stream with fewer shards than workers leaves the others idle."""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Callable

from torch.utils.data import dataloader
from torch.utils.data._utils import worker

from vgpu.replacing import Patches


class LoaderWorkers:
    """Counts, of one rank, the workers whose share of a pass over a stream had no row."""

    def __init__(self) -> None:
        self.of_all = 0  #: workers of the data loader with the most idle ones
        self.idle = 0
        self._patches = Patches("workers of data loaders that get no rows are counted")
        #: by iterator, of its current pass: batches by worker, and the workers that had none
        self._passes: weakref.WeakKeyDictionary[object, tuple[Counter[int], set[int]]] = weakref.WeakKeyDictionary()

    def begin(self) -> None:
        """Watch from now on."""
        kind = dataloader._MultiProcessingDataLoaderIter
        self._patches.replace(kind, "_get_data", self._watching(kind._get_data))

    def end(self) -> None:
        """Watch no longer."""
        self._patches.close()

    def _watching(self, original: Callable[..., tuple[int, object]]) -> Callable[..., tuple[int, object]]:
        @functools.wraps(original)
        def get_data(iterator: dataloader._MultiProcessingDataLoaderIter) -> tuple[int, object]:
            answer = original(iterator)
            self._note_answer(iterator, *answer)
            return answer

        return get_data

    def _note_answer(self, iterator: dataloader._MultiProcessingDataLoaderIter, task: int, data: object) -> None:
        delivered, idle = self._passes.setdefault(iterator, (Counter(), set()))
        if not isinstance(data, worker._IterableDatasetStopIteration):
            by = iterator._task_info.get(task, (None,))[0]
            delivered[by] += 1
            idle.discard(by)
            return
        if not delivered.pop(data.worker_id, 0):
            idle.add(data.worker_id)
        if len(idle) > self.idle:
            self.idle, self.of_all = len(idle), iterator._num_workers
