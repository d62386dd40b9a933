"""The ledger of replaced names, for tests of what is in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from vgpu.replacing import LEDGER


@contextlib.contextmanager
def empty_ledger() -> Iterator[None]:
    """Empty the ledger within the block."""
    before = dict(LEDGER)
    LEDGER.clear()
    try:
        yield
    finally:
        LEDGER.clear()
        LEDGER.update(before)
