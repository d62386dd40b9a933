"""Large tensors on the host have a size and no contents, so they cost no memory of this machine."""

from __future__ import annotations

import copy
import resource

import pytest

torch = pytest.importorskip("torch")

from vgpu.meters.ledger import DEVICE, HOST  # noqa: E402
from vgpu.sim import Simulation  # noqa: E402

GIB = 1 << 30


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def test_a_pinned_copy_that_a_framework_makes_outside_of_an_operator_costs_nothing() -> None:
    with Simulation() as simulation:
        ledger, before = simulation.mode.ledger, resident_bytes()
        source = torch.zeros(GIB, dtype=torch.float32, device="cpu")
        ledger.reset_peak()
        pinned = source.pin_memory()
        assert ledger.live[HOST] == 8 * GIB
        assert ledger.peak[DEVICE] == 0
        states = torch.zeros_like(pinned), torch.zeros_like(pinned)
        states[0].mul_(0.9).add_(pinned, alpha=0.1)
        assert ledger.live[HOST] == 16 * GIB
        assert resident_bytes() - before < GIB // 4


def test_a_tensor_like_one_on_the_device_is_where_it_is_asked_for() -> None:
    """As DeepSpeed's ``offload_states`` makes the buffers that states go to."""
    with Simulation() as simulation:
        ledger, state = simulation.mode.ledger, torch.zeros(GIB, device=Simulation.device)
        on_the_host = torch.empty_like(state, device="cpu"), torch.zeros_like(state, device="cpu")
        assert (ledger.live[HOST], ledger.live[DEVICE]) == (8 * GIB, 4 * GIB)
        assert {tensor.device.type for tensor in on_the_host} == {"cpu"}
        assert state.new_ones(2, device="cpu").tolist() == [1.0, 1.0]


def test_a_small_pinned_copy_keeps_its_contents() -> None:
    with Simulation():
        assert torch.tensor([3, 1, 4]).pin_memory().tolist() == [3, 1, 4]


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_an_empty_tensor_can_be_pinned(shape: tuple[int, ...]) -> None:
    with Simulation() as simulation:
        pinned = torch.empty(shape, device="cpu").pin_memory()
        assert pinned.shape == shape
        assert not simulation.mode.is_ghost(pinned)


def test_optimizer_states_of_an_offloaded_zero_2_partition_cost_nothing() -> None:
    """The partition is cast on the host, pinned by the accelerator, and AdamW makes its states from it."""
    with Simulation():
        before = resident_bytes()
        partition = torch.empty(GIB, dtype=torch.bfloat16, device="meta").to("cpu").clone().float().pin_memory()
        partition.requires_grad_()
        partition.grad = torch.zeros(GIB, dtype=torch.float32, device="cpu").pin_memory()
        torch.optim.AdamW([partition], foreach=False).step()
        assert resident_bytes() - before < GIB // 4


@pytest.mark.parametrize("elements", [10, GIB])
def test_a_deep_copy_of_what_has_no_contents_has_its_geometry_and_costs_nothing(elements: int) -> None:
    """As programs keep a reference, an average of weights, or a state dict."""
    with Simulation() as simulation:
        ledger, before = simulation.mode.ledger, resident_bytes()
        source = torch.empty(elements, dtype=torch.bfloat16, device="meta").to("cpu")
        held = ledger.live[HOST]
        copies = copy.deepcopy({"whole": source, "part": source[2:]})
        assert ledger.live[HOST] == 2 * held
        assert (copies["whole"].shape, copies["part"].shape) == ((elements,), (elements - 2,))
        assert copies["part"].untyped_storage()._cdata == copies["whole"].untyped_storage()._cdata
        assert simulation.mode.is_ghost(copies["part"])
        if elements == 10:
            assert copies["whole"].float().numpy().tolist() == [1.0] * 10
        assert resident_bytes() - before < GIB // 4


def test_a_deep_copy_of_what_a_program_filled_has_its_contents() -> None:
    with Simulation():
        assert copy.deepcopy(torch.tensor([3, 1, 4])).tolist() == [3, 1, 4]
