"""The virtual card of a scenario: which one it is, its allocator, and its phases."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.frameworks.simulated_card import on_virtual_card  # noqa: E402
from vgpu.allocator.model import AllocatorSettings  # noqa: E402
from vgpu.meters.ledger import DEVICE, FREE_DELAYED, FREE_PASSED, StorageLedger, noted  # noqa: E402


@pytest.mark.parametrize(
    ("gpu", "name", "workspace_mib"),
    [({"gpu": "A800-80G"}, "A800", 8.125), ({"gpu": "H100-80G"}, "H100", 32), ({}, "H100", 32)],
)
def test_it_is_the_one_that_the_scenario_names_or_an_h100(gpu: dict[str, str], name: str, workspace_mib: float) -> None:
    with on_virtual_card({"world_size": 2, **gpu}) as meter, meter:
        assert name in torch.cuda.get_device_name()
        left, right = (torch.ones(8, 8, device="cuda") for _ in range(2))
        meter.begin()
        _ = left @ right
        assert meter.end().device_retained_bytes == workspace_mib * 2**20 + 3 * 256


@pytest.mark.parametrize("expandable", [False, True])
def test_its_allocator_has_the_options_of_the_scenario(expandable: bool) -> None:
    with on_virtual_card({"world_size": 1, "expandable_segments": expandable}) as meter, meter:
        meter.begin()
        meter.end()
        simulated: Any = meter
        assert simulated.allocator() == AllocatorSettings(expandable_segments=expandable)


def test_what_another_stream_uses_is_free_when_the_next_phase_begins() -> None:
    """As on a GPU, where the meter waits for the card before each phase."""
    with on_virtual_card({"world_size": 1}) as meter, meter:
        simulated: Any = meter
        meter.begin()
        used = torch.ones(1 << 20, device="cuda")
        used.record_stream(torch.cuda.Stream())
        del used
        meter.end()
        before = notes(simulated.ledger)
        meter.begin()
        assert (before, notes(simulated.ledger)) == ({FREE_DELAYED}, {FREE_DELAYED, FREE_PASSED})


def notes(ledger: StorageLedger) -> set[int]:
    assert ledger.trace is not None
    return {noted(key)[0] for key, _, memory, _ in ledger.trace if key < 0 and memory == DEVICE}
