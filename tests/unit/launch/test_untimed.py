"""Untimed cells in parallel, and the slots they take."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait

import msgspec

from dsregress.launch import schedule
from dsregress.launch.contract import Ended
from dsregress.launch.fake import FakeExecutor
from dsregress.launch.one_machine import OneMachine
from dsregress.launch.untimed import Slots, run_parallel
from dsregress.model import Cell, Environment, Hardware
from tests.builders.cells import cell


def machine(executor: FakeExecutor, cores: int) -> OneMachine:
    return OneMachine(executor, Hardware(cpu="c", cores=cores, memory_bytes=64 << 30))


def environment_of(cell: Cell) -> Environment:
    return Environment(stack=cell.environment_stack, lock_sha256="")


def test_environments_run_in_parallel_each_on_its_own_worker() -> None:
    executor = FakeExecutor()

    cells = [cell(version, "sim") for version in "ABCDE" for _ in range(2)]
    events = list(run_parallel(machine(executor, cores=3), cells, environment_of))
    assert sum(isinstance(event, schedule.Finished) for event in events) == 10
    for version in "ABCDE":
        own = [line for line in executor.log if line.endswith(f"{version}:sim")]
        assert own == [f"open {version}:sim", *[f"start s/base {version}:sim"] * 2, f"close {version}:sim"]


def test_scenarios_with_packages_of_their_own_never_share_a_worker_with_others_of_their_stack() -> None:
    executor = FakeExecutor()
    plain = cell("A", "sim")
    with_trl = msgspec.structs.replace(plain, scenario="trl", parameters={"packages": {"trl": "0.24.0"}})
    without = msgspec.structs.replace(plain, scenario="plain", parameters={"packages": {}})
    list(run_parallel(machine(executor, cores=1), [plain, with_trl, without], environment_of))
    assert [line for line in executor.log if line.startswith("start")] == [
        "start s/base A:sim",
        "start plain/base A:sim",
        "start trl/base A + trl 0.24.0:sim",
    ]


def test_what_needs_several_places_waits_for_them_and_is_not_overtaken() -> None:
    slots = Slots(2)
    order: list[str] = []

    def take(name: str, wanted: int) -> None:
        with slots.taken(wanted):
            order.append(name)

    with ThreadPoolExecutor() as pool, slots.taken(1):
        large = pool.submit(take, "large", 2)
        while not slots._queue:
            time.sleep(0.001)
        small = pool.submit(take, "small", 1)
        assert wait([small], timeout=0.05).not_done, "there is a free place, but whose turn it is waits for two"
    wait([large, small])
    assert order == ["large", "small"]


def test_what_needs_more_places_than_there_are_takes_them_all() -> None:
    slots = Slots(2)
    with slots.taken(4):
        pass
    with slots.taken(2):
        pass


def test_a_fault_in_a_lane_reaches_the_caller() -> None:
    def broken(cell: Cell) -> Ended:
        raise RuntimeError("a fault of ours")

    executor = FakeExecutor(broken)
    try:
        list(run_parallel(machine(executor, cores=2), [cell("A", "sim")], environment_of))
    except RuntimeError as error:
        assert str(error) == "a fault of ours"
    else:
        raise AssertionError("nothing was raised")
