"""Where in physical memory a timed process lies, so that its step time does not depend on when it started: Linux 6.1 on,
no privilege needed.

The kernel gives a process the pages that are free, which differ from one to the next: of ten processes of one release, the
first took up to 18 % longer in every round, the more so the longer the machine was up (docs/benchmarks.md). In huge pages
the first one is like the others.
"""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

#: madvise(2): makes huge pages at once, also where the system makes none by itself.
_MADV_COLLAPSE = 25

_HUGE_PAGE_BYTES = 2 << 20

#: As in proc(5): private and writable.
_OWN = "rw-p"


def use_huge_pages() -> None:
    """Moves this process's data to huge pages, which takes 0.2 to 1 s for 300 MB. What it shared with the process that it
    was forked from is its own from then on. Without effect on other kernels, and where no huge page is free."""
    with contextlib.suppress(OSError, AttributeError):
        madvise = ctypes.CDLL(None).madvise
        madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for line in Path("/proc/self/maps").read_text().splitlines():
            addresses, access, _, _, inode, *name = line.split()
            if access == _OWN and inode == "0" and (not name or name[0].startswith(("[heap]", "[anon"))):
                begin, end = (int(address, 16) for address in addresses.split("-"))
                if end - begin >= _HUGE_PAGE_BYTES:
                    madvise(begin, end - begin, _MADV_COLLAPSE)  # what it refuses stays as it is
