"""What programs read of host tensors while others lose their contents."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from vgpu.meters.meter import TorchMeter  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402


def test_a_number_where_unknown_ones_were_freed_is_read_as_it_is() -> None:
    with Simulation(0, 1):
        weight = torch.empty(1024, 1024).normal_()
        for _ in range(20):  # small freed storages have their addresses taken again at once
            weight.max(dim=0)
            assert weight.new_tensor(-2.0).item() == -2.0


@pytest.mark.parametrize("memory", ["cpu", Simulation.device])
def test_bounded_weights_are_drawn_once(memory: str) -> None:
    with Simulation(0, 1):
        for bound in (2.0, 0.01):  # numbers drawn from all, and from a part in which few fall
            torch.nn.init.trunc_normal_(torch.empty(1024, 1024, device=memory), std=0.02, a=-bound, b=bound)


def test_a_sampler_draws_from_more_rows_than_fit_into_the_devices_known_values() -> None:
    with Simulation(0, 1):
        rows = torch.randperm(1_000_000).tolist()
    assert sorted(rows) == list(range(1_000_000))


def test_a_tensor_made_of_numbers_on_the_device_has_them() -> None:
    with Simulation(0, 1):
        lengths = torch.tensor([3, 5], device=Simulation.device)
        assert torch.tensor([lengths[0], lengths[1]], dtype=torch.float).tolist() == [3.0, 5.0]


def test_operators_made_of_others_are_counted_by_these_where_autograd_takes_no_part() -> None:
    def evaluate(device: str) -> None:
        with torch.inference_mode():
            hidden = torch.nn.functional.linear(torch.rand(8, 64, device=device), torch.rand(64, 64, device=device))
            torch.matmul(hidden, hidden.t()).to(torch.float64).reshape(4, 16).contiguous().std()

    with TorchMeter(device="cpu") as meter:
        meter.begin()
        evaluate("cpu")
        measured = meter.end()
    with Simulation(0, 1, kernels="cpu") as simulation:
        simulation.mode.begin()
        evaluate(Simulation.device)
        simulated = simulation.mode.end()
    assert measured.flops == 2 * 8 * 64 * 64 + 2 * 8 * 64 * 8
    assert (simulated.device_peak_bytes, simulated.op_launches, simulated.flops) == (
        measured.device_peak_bytes,
        measured.op_launches,
        measured.flops,
    )


def test_scripts_that_call_what_a_simulation_replaces_are_compiled() -> None:
    with Simulation(0, 1):

        def more(given: torch.Tensor) -> torch.Tensor:
            return given * torch.tensor(2.0) + torch.as_tensor(1.0)

        made = torch.jit.script(more)(torch.ones(4, 8, device=Simulation.device))
        assert made.shape == (4, 8)
