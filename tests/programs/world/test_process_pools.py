"""Pools that a program starts."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.pool import ThreadPool

import pytest

pytest.importorskip("torch")

from torch.utils.data import DataLoader, IterableDataset

from dsregress.programs.world import process_pools


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_pools, "processor_count", lambda: 2)


def test_a_pool_has_no_more_processes_than_the_machine_has_processors() -> None:
    with process_pools.capped_pools():
        with multiprocessing.get_context("fork").Pool(48) as pool:
            assert pool._processes == 2
            assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]
        with multiprocessing.get_context("fork").Pool(processes=1) as pool:
            assert pool._processes == 1
        with ProcessPoolExecutor(max_workers=48) as executor:
            assert executor._max_workers == 2


def test_a_data_loader_has_one_worker_whose_batches_come_in_order() -> None:
    with process_pools.capped_pools():
        loader = DataLoader(range(6), batch_size=2, num_workers=48)  # type: ignore[arg-type]
        assert loader.num_workers == 1
        assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]
        assert DataLoader(range(6)).num_workers == 0  # type: ignore[arg-type]


class _Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(6))


def test_a_stream_has_no_more_workers_than_the_machine_has_processors() -> None:
    with process_pools.capped_pools():
        assert DataLoader(_Stream(), num_workers=48).num_workers == 2


def test_threads_are_as_many_as_ever() -> None:
    with process_pools.capped_pools(), ThreadPool(8) as pool:
        assert pool._processes == 8


def test_a_wrong_size_is_the_programs_error() -> None:
    with process_pools.capped_pools(), pytest.raises(ValueError, match="at least 1"):
        multiprocessing.Pool(0)
