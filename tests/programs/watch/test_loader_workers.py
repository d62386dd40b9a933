"""Workers of data loaders whose share of a stream has no row are counted, pass by pass."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset, get_worker_info  # noqa: E402

from dsregress.programs.watch.loader_workers import LoaderWorkers  # noqa: E402


class Stream(IterableDataset[int]):
    """As one of ``datasets`` with so many shards: a worker reads its own."""

    def __init__(self, shards: int) -> None:
        self._shards = shards

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        assert worker is not None
        yield from range(8 if worker.id < self._shards else 0)


@pytest.mark.parametrize(("shards", "idle"), [(1, (2, 3)), (3, (0, 0))])
def test_workers_without_a_shard_are_idle(shards: int, idle: tuple[int, int]) -> None:
    workers = LoaderWorkers()
    workers.begin()
    try:
        assert len(list(DataLoader(Stream(shards), batch_size=2, num_workers=3))) == 4 * shards
        assert (
            len(list(DataLoader([1, 2], batch_size=1, num_workers=3))) == 2
        )  # rows by index are drawn by the main process
    finally:
        workers.end()
    assert (workers.idle, workers.of_all) == idle


def test_a_second_pass_is_counted_by_itself() -> None:
    workers = LoaderWorkers()
    workers.begin()
    try:
        loader = DataLoader(Stream(2), batch_size=4, num_workers=2, persistent_workers=True)
        assert [len(list(loader)) for _ in range(2)] == [4, 4]
        assert workers.idle == 0
    finally:
        workers.end()
