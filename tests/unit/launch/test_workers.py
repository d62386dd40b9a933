"""The workers of one machine: made once, and closed once, whichever thread closes them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from dsregress.launch.contract import Worker
from dsregress.launch.fake import FakeExecutor, FakeWorker
from dsregress.launch.workers import Workers, cores
from dsregress.model import Cell, Environment
from tests.builders import synthetic


def cell(version: str) -> Cell:
    return synthetic.result(version).cell


def environment(version: str) -> Environment:
    return Environment(stack=synthetic.stack(version), lock_sha256="")


@pytest.mark.parametrize(("device", "ranks", "expected"), [("sim", 32, 1), ("cpu", 1, 1), ("cpu", 2, 1), ("cpu", 8, 4)])
def test_two_ranks_share_a_core_and_a_simulation_is_one_process(device: str, ranks: int, expected: int) -> None:
    assert cores(msgspec.structs.replace(cell("0.16.4"), device=device, parameters={"world_size": ranks})) == expected


def test_cells_on_gpus_have_the_machine_to_themselves() -> None:
    on_gpu = msgspec.structs.replace(cell("0.16.4"), device="cuda", parameters={"world_size": 1})
    assert cores(on_gpu) > 10_000


class _Closing(FakeWorker):
    """Calls ``meanwhile`` while it is closed, as another thread would."""

    def __init__(self, executor: FakeExecutor, name: str, meanwhile: Callable[[], None]) -> None:
        super().__init__(executor, name)
        self._meanwhile = meanwhile

    def close(self) -> None:
        super().close()
        self._meanwhile()


def test_a_worker_is_made_once_and_stays_while_it_is_needed() -> None:
    executor = FakeExecutor()
    workers = Workers(executor.worker)
    first, second = (workers.worker(environment(version), cell(version)) for version in ("0.15.0", "0.16.0"))
    assert workers.worker(environment("0.15.0"), cell("0.15.0")) is first
    workers.close(keep={(cell("0.16.0").stack.id, "cpu", cell("0.16.0").framework)})
    assert (len(workers), workers.worker(environment("0.16.0"), cell("0.16.0"))) == (1, second)


def test_workers_that_another_thread_closes_meanwhile_are_closed_once() -> None:
    executor = FakeExecutor()

    def make(environment: Environment, device: str, framework: str) -> Worker:
        return _Closing(executor, environment.stack.versions["deepspeed"], workers.close)

    workers = Workers(make)
    for version in ("0.15.0", "0.16.0"):
        workers.worker(environment(version), cell(version))
    workers.close()
    assert sorted(executor.log) == ["close 0.15.0", "close 0.16.0"]
