"""Bytes that kernels without FLOPs move: what they read and what they write, alike in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.meters.meter import TorchMeter  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402

MIB = 1 << 20

#: What runs on tensors of 1 MiB (x, y; 256 to 1024 of x's rows are 4 KiB) -> MiB moved.
CASES: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "reads two, writes one": (lambda x, y: x + y, 3),
    "reads and writes in place": (lambda x, y: x.add_(y), 3),
    "writes without reading": (lambda x, y: x.copy_(y), 2),
    "fills": (lambda x, y: x.zero_(), 1),
    "reads what it picks": (lambda x, y: x[torch.zeros(16, dtype=torch.long, device=x.device)], 2 * 16 / 256),
    "a view moves nothing": (lambda x, y: x.t(), 0),
    "a product is counted by its FLOPs": (lambda x, y: x @ y.t(), 0),
    "repeated elements are read once": (lambda x, y: x[:1].expand(256, 1024) * 1.0, 2),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_moved(device: str, case: str) -> None:
    run, moved_mib = CASES[case]
    if device == "sim":
        with Simulation(0, 1) as simulation:
            moved = counted(simulation.mode, run, Simulation.device)
    else:
        with TorchMeter() as meter:
            moved = counted(meter, run, "cpu")
    assert moved == pytest.approx(moved_mib * MIB, abs=1024)


def counted(meter: Any, run: Callable[[Any, Any], Any], device: str) -> int:
    x, y = (torch.ones(256, 1024, device=device) for _ in range(2))
    meter.begin()
    run(x, y)
    moved: int = meter.end().moved_bytes
    return moved


def test_a_copy_between_host_and_card_is_counted_apart() -> None:
    with Simulation(0, 1) as simulation:
        simulation.mode.begin()
        torch.ones(256, 1024, device=Simulation.device).cpu()
        reading = simulation.mode.end()
    assert reading.copied_bytes == MIB
