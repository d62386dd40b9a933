"""A virtual card on the CPU, whose kernels torch computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu import attaching  # noqa: E402
from vgpu.meters.meter import TorchMeter  # noqa: E402


@pytest.fixture
def meter() -> Iterator[Any]:
    """One rank on the CPU, inside a phase."""
    torch.manual_seed(0)
    with TorchMeter("cpu", trace=True) as meter, attaching.attached("cpu", meter):
        meter.begin()
        yield meter
