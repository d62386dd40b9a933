"""Sessions of timed cells."""

from __future__ import annotations

import msgspec

from harness.launch.timed import room_for_huge_pages
from harness.model import Hardware
from tests.builders.cells import cell


def room(cells: int, ranks: int, memory_gib: int, device: str = "cpu") -> bool:
    members = [
        msgspec.structs.replace(cell(str(number), device), parameters={"world_size": ranks}) for number in range(cells)
    ]
    return room_for_huge_pages(members, Hardware(cpu="x", cores=2, memory_bytes=memory_gib << 30))


def test_ranks_lie_in_huge_pages_where_all_of_the_session_have_room() -> None:
    assert room(10, 2, 24)
    assert room(3, 2, 8)
    assert not room(8, 2, 8)
    assert not room(10, 8, 24)


def test_huge_pages_are_for_ranks_on_cpu() -> None:
    assert not room(2, 2, 24, "cuda")
