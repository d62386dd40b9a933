"""Values on the virtual card, as a program reads them: `tests/vgpu/sim/test_known.py` through the names of CUDA."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.device.books import Books  # noqa: E402
from vgpu.sim import SimulationError  # noqa: E402


def test_what_comes_from_the_host_is_known_on_the_card(books: Books) -> None:
    tokens = torch.tensor([[5, 6, 0]], device="cuda")
    made = torch.arange(6).cuda().view(2, 3)
    assert tokens[tokens != 0].tolist() == [5, 6]
    assert made[:, 1].cpu().numpy().tolist() == [1, 4]
    assert torch.cuda.LongTensor([3, 4]).sum().item() == 7
    assert f"{torch.ones((), device='cuda'):.1f}" == "1.0"


def test_unknown_floats_are_logged_and_unknown_integers_refused(books: Books) -> None:
    loss = torch.rand((), device="cuda")
    assert (f"{loss:.2f}", loss.tolist(), loss.cpu().numpy()) == ("1.00", 1.0, 1.0)
    with pytest.raises(SimulationError, match=r"read; .* At tests/vgpu/device/test_values.py:\d+ in"):
        torch.rand(3, device="cuda").long().tolist()


def test_reading_counts_nothing(books: Books) -> None:
    """Apart from the copy to the host that a card makes as well."""
    tokens: Any = torch.tensor([1, 2], device="cuda")
    before = torch.cuda.memory_allocated()
    assert [tokens.tolist(), tokens[0].item(), bool((tokens > 0).all())] == [[1, 2], 1, True]
    assert torch.cuda.memory_allocated() == before


def test_a_function_under_vmap_sees_the_card(books: Books) -> None:
    """As transformers makes its masks."""
    mask = torch.tensor([[True, False]], device="cuda")
    seen = []

    def function(row: Any) -> Any:
        seen.append(row.device.type)
        return ~row

    assert torch.vmap(function)(mask).tolist() == [[False, True]]
    assert seen == ["cuda"]
