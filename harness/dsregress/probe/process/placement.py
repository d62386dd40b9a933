"""Physical memory placement of a timed process, so that its step time does not depend on when it started. Linux 6.1 and
later, no privilege needed.

The kernel gives a process the pages that are free, which differ from one to the next: of ten processes of one release,
the first took up to 18 % longer in every round, the more so the longer the machine was up (docs/benchmarks.md). In huge
pages the first one is like the others.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
from array import array
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

#: madvise(2): makes huge pages at once, even if the system makes none by itself.
_MADV_COLLAPSE = 25

#: How often a range is tried that the kernel cannot move at the moment, as when it is about to move one of its pages
#: itself: EAGAIN of madvise(2).
_TRIES = 3

_HUGE_PAGE_BYTES = 2 << 20
_PAGE_BYTES = mmap.PAGESIZE

#: Access in proc(5): private and writable.
_OWN = "rw-p"

#: An entry of /proc/self/pagemap: the page is in memory (bit 63), and no other process shares it (bit 56).
_ENTRY_BYTES = 8
_PRESENT_AND_EXCLUSIVE = 1 << 63 | 1 << 56

#: Number of a huge page's pages. A rank of the default set has written 60 MB of 260, nine tenths of them in such huge pages,
#: which are 150 MB. Moving all of it takes twice as long, and changes no step time (docs/benchmarks.md).
_LEAST_WRITTEN = _HUGE_PAGE_BYTES // _PAGE_BYTES // 8


def use_huge_pages() -> None:
    """Move what this process has written to huge pages. Other content of the same huge pages, which it shared with the
    process that it was forked from, becomes its own. No effect on other kernels, or if no huge page is free."""
    with contextlib.suppress(OSError, AttributeError):
        madvise = ctypes.CDLL(None, use_errno=True).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            written = [run for mapping in _own_mappings() for run in _written_pages(pagemap, *mapping)]
        for begin, end in written:
            for _ in range(_TRIES):  # mappings that it refuses are left unchanged
                if madvise(begin, end - begin, _MADV_COLLAPSE) == 0 or ctypes.get_errno() != errno.EAGAIN:
                    break


def _own_mappings() -> Iterator[tuple[int, int]]:
    """Yield begin and end of the whole huge pages in each mapping of this process's data."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, access, _, _, inode, *name = line.split()
        if access == _OWN and inode == "0" and (not name or name[0].startswith(("[heap]", "[anon"))):
            begin, end = (int(address, 16) for address in addresses.split("-"))
            begin, end = -(-begin // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES, end // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
            if begin < end:
                yield begin, end


def _written_pages(pagemap: RawIOBase, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the runs of huge pages of which this process alone has at least `_LEAST_WRITTEN` pages."""
    run = begin
    for at in range(begin, end, _HUGE_PAGE_BYTES):
        pagemap.seek(at // _PAGE_BYTES * _ENTRY_BYTES)
        entries = array("Q", pagemap.read(_HUGE_PAGE_BYTES // _PAGE_BYTES * _ENTRY_BYTES))
        if sum(entry & _PRESENT_AND_EXCLUSIVE == _PRESENT_AND_EXCLUSIVE for entry in entries) < _LEAST_WRITTEN:
            if run < at:
                yield run, at
            run = at + _HUGE_PAGE_BYTES
    if run < end:
        yield run, end
