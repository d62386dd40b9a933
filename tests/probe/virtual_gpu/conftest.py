"""A virtual card in a simulation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe import virtual_gpu  # noqa: E402
from dsregress.probe.sim import Simulation  # noqa: E402


@pytest.fixture
def books() -> Iterator[virtual_gpu.Books]:
    """Rank 0 of 4, inside; what the card holds."""
    with (
        Simulation(0, 4) as simulation,
        simulation.meter,
        virtual_gpu.attached("meta", simulation.mode, rank=0, world_size=4) as books,
    ):
        yield books
