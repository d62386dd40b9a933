"""The tests of the virtual GPU fork a process for each job. A virtual card in a simulation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.measured import pytest_collection_finish, pytest_configure

if TYPE_CHECKING:
    from vgpu.device.books import Books

__all__ = ["books", "pytest_collection_finish", "pytest_configure"]


@pytest.fixture
def books() -> Iterator[Books]:
    """Rank 0 of 4, inside; what the card holds."""
    pytest.importorskip("torch")
    from vgpu import attaching
    from vgpu.sim import Simulation

    with (
        Simulation(0, 4) as simulation,
        simulation.meter,
        attaching.attached("meta", simulation.mode, rank=0, world_size=4) as books,
    ):
        yield books
