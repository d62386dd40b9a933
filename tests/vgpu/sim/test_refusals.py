"""What cannot be simulated is refused in one line that names the place and the way out."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.faults import signature_of  # noqa: E402
from dsregress.probe.holders import sites  # noqa: E402
from vgpu.sim import Simulation, SimulationError  # noqa: E402
from vgpu.sim.errors import caller  # noqa: E402


def decide_by_data(tensor: torch.Tensor) -> bool:
    return bool((tensor > 0).any())


def test_a_decision_by_data_names_who_makes_it_and_the_way_out() -> None:
    with Simulation(0, 4), pytest.raises(SimulationError) as refused:
        decide_by_data(torch.rand(3, device=Simulation.device))
    line = decide_by_data.__code__.co_firstlineno + 1
    assert (
        signature_of(refused.value)
        == (
            "SimulationError: a data-dependent decision (bool[]); sim has shapes only: run it on the CPU or a GPU. At "
            f"tests/vgpu/sim/test_refusals.py:{line} in decide_by_data"
        )[:160]
    )


def test_a_shape_that_depends_on_unknown_values_names_who_wants_it() -> None:
    with Simulation(0, 4), pytest.raises(SimulationError) as refused:
        torch.rand(3, device=Simulation.device).nonzero()
    assert str(refused.value).startswith(
        "aten.nonzero.default has no shape without values (float32[3]): run it on the CPU or a GPU. At "
        "tests/vgpu/sim/test_refusals.py:"
    )


@pytest.mark.parametrize(("rank", "world_size"), [(4, 4), (-1, 4), (0, 0)])
def test_a_rank_that_does_not_exist(rank: int, world_size: int) -> None:
    with pytest.raises(SimulationError, match="does not exist"):
        Simulation(rank, world_size)


def test_large_host_tensors_are_counted_but_take_no_memory() -> None:
    resource = pytest.importorskip("resource")
    with Simulation(0, 2) as simulation:
        simulation.meter.begin()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        states = [torch.zeros(1 << 32, dtype=torch.float32) for _ in range(4)]
        for state in states:
            state.mul_(2).add_(torch.ones(1 << 32, device=Simulation.device).cpu())
        reading = simulation.meter.end()
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert reading.host_retained_bytes == 4 << 34
    assert after - before < 100 * 1024  # KiB


def test_who_asks_is_found_behind_torch_and_behind_the_observer_of_calls() -> None:
    of_torch: dict[str, object] = {"__name__": "torch.nn.modules.asking", "caller": caller}
    exec("def forward(self): return caller()", of_torch)
    asking = type("Asking", (torch.nn.Module,), {"forward": of_torch["forward"]})
    with Simulation(0, 2) as simulation, sites.observe_sites(simulation.meter, SimpleNamespace(PACKAGE="somewhere")):
        frame = asking()()
    assert frame.f_code.co_name == "test_who_asks_is_found_behind_torch_and_behind_the_observer_of_calls"


def test_a_parameter_that_another_process_would_train_is_refused() -> None:
    with Simulation(0, 2):
        small = torch.ones(8).share_memory_()  # as programs share flags
        assert small.tolist() == [1.0] * 8
        with pytest.raises(SimulationError, match="shared with another process, which sim does not follow"):
            torch.zeros(1 << 34).share_memory_()
