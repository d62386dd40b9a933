"""Where timed processes lie in memory."""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from pathlib import Path

import pytest

from dsregress.probe.process import placement
from tests.builders.forks import in_a_fork

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel's means are Linux's"),
    pytest.mark.skipif(
        tuple(map(int, platform.release().split(".")[:2])) < (6, 1), reason="this kernel makes no huge pages on demand"
    ),
]


def huge_bytes(data: mmap.mmap) -> int:
    """Of the mapping that holds `data` alone: the rest of a test process moves too, and its size is not the test's."""
    first = ctypes.addressof(ctypes.c_char.from_buffer(data))
    is_its = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, *values = line.split()
        if not name.endswith(":"):
            begin, end = (int(address, 16) for address in name.split("-"))
            is_its = begin <= first < end
        elif is_its and name == "AnonHugePages:":
            return int(values[0]) << 10
    raise AssertionError("the mapping is not in smaps")


def test_data_of_a_process_moves_to_huge_pages_and_stays_what_it_was() -> None:
    def answer() -> str:
        data = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        written = bytes(range(256)) * (len(data) // 256)
        data.madvise(mmap.MADV_NOHUGEPAGE)
        data[:] = written
        data.madvise(mmap.MADV_HUGEPAGE)  # which says nothing of what is there already
        before = huge_bytes(data)
        placement.use_huge_pages()
        return f"{huge_bytes(data) - before >> 20} {data[:] == written}"

    moved_mib, is_as_written = in_a_fork(answer).split()
    assert int(moved_mib) >= 12
    assert is_as_written == "True"


def test_what_a_process_has_from_its_parent_and_has_not_written_stays_where_it_is() -> None:
    parents = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    parents.madvise(mmap.MADV_NOHUGEPAGE)
    parents[:] = bytes([1]) * len(parents)
    parents.madvise(mmap.MADV_HUGEPAGE)

    def answer() -> str:
        parents[: 8 << 20] = bytes([2]) * (8 << 20)
        before = huge_bytes(parents)
        placement.use_huge_pages()
        moved = huge_bytes(parents) - before
        return f"{moved >> 20} {parents[:] == bytes([2]) * (8 << 20) + bytes([1]) * (24 << 20)}"

    moved_mib, is_as_written = in_a_fork(answer).split()
    assert 4 <= int(moved_mib) < 24
    assert is_as_written == "True"


def test_memory_that_processes_share_stays_shared() -> None:
    shared = mmap.mmap(-1, 16 << 20)

    def answer() -> str:
        placement.use_huge_pages()
        shared[:5] = b"hello"
        return "written"

    assert in_a_fork(answer) == "written"
    assert shared[:5] == b"hello"


def test_a_system_that_does_not_tell_its_mappings_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> str:
        raise OSError(path)

    monkeypatch.setattr(Path, "read_text", refuse)
    placement.use_huge_pages()
