"""Sessions of timed cells."""

from __future__ import annotations

import msgspec

from dsregress.launch.contract import RunPlan
from dsregress.launch.fake import FakeExecutor
from dsregress.launch.one_machine import OneMachine, ThisMachine
from dsregress.launch.timed import room_for_huge_pages, session_plan
from dsregress.model import Hardware
from tests.builders.cells import cell


def room(cells: int, ranks: int, memory_gib: int) -> bool:
    members = [
        msgspec.structs.replace(cell(str(number), "cpu"), parameters={"world_size": ranks}) for number in range(cells)
    ]
    return room_for_huge_pages(members, Hardware(cpu="x", cores=2, memory_bytes=memory_gib << 30))


def test_ranks_lie_in_huge_pages_where_all_of_the_session_have_room() -> None:
    assert room(10, 2, 24)
    assert room(3, 2, 8)
    assert not room(8, 2, 8)
    assert not room(10, 8, 24)


def plan(device: str, busy_cores: float) -> RunPlan:
    hardware = Hardware(cpu="x", cores=2, memory_bytes=24 << 30)
    machine = ThisMachine(OneMachine(FakeExecutor(), hardware, lambda: busy_cores))
    return session_plan(RunPlan(warmup_rounds=2, rounds=9), [cell("1", device), cell("2", device)], machine)


def test_ranks_take_short_turns_beside_other_work() -> None:
    assert not plan("cpu", 0.1).short_turns
    assert plan("cpu", 1.0).short_turns


def test_a_gpu_and_the_thread_that_feeds_it_are_the_jobs_own_to_use() -> None:
    of_gpu = plan("cuda", 2.0)
    assert not of_gpu.huge_pages
    assert not of_gpu.short_turns
    assert plan("cpu", 0.0).huge_pages
