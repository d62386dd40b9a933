"""What a kernel writes is unknown in a simulation, wherever it lies."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from vgpu import attaching  # noqa: E402
from vgpu.device import launching  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_kernel_counts_once_and_what_it_writes_is_unknown(device: str) -> None:
    with Simulation() as simulation, attaching.attached("meta", simulation.mode):
        mode = simulation.mode
        written, other = torch.tensor([1, 2, 3]).to(device), torch.tensor([4, 5, 6]).to(device)
        before = mode.op_launches
        with launching.kernel(written, flops=6) as compute:
            assert not compute
            written.add_(1)  # not counted
        assert (mode.op_launches, mode.flops) == (before + 1, 6)
        with torch._C.DisableTorchFunction():
            assert (mode.known.contents(written), mode.known.contents(other).tolist()) == (None, [4, 5, 6])


def test_a_kernel_that_fails_counts_neither_itself_nor_what_it_was_made_of() -> None:
    def fails(written: torch.Tensor) -> None:
        with launching.kernel(written, flops=6):
            written.add_(1)
            raise ValueError("in it")

    with Simulation() as simulation, attaching.attached("meta", simulation.mode):
        written = torch.ones(3, device="cuda")
        before = simulation.mode.op_launches
        with pytest.raises(ValueError, match="^in it$"):
            fails(written)
        assert (simulation.mode.op_launches, simulation.mode.flops) == (before, 0)
