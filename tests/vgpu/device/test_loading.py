"""``torch.load`` and ``torch.device`` on the virtual card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from vgpu.device.books import Books  # noqa: E402
from vgpu.sim.errors import SimulationError  # noqa: E402

ELEMENTS = 1 << 20


@pytest.mark.parametrize(
    "where", ["cuda", torch.device("cuda", 0), {"cpu": "cuda:0"}, lambda storage, _: storage.cuda()]
)
def test_a_file_is_loaded_onto_the_card_once_for_what_shares_its_bytes(
    books: Books, tmp_path: Path, where: Any
) -> None:
    weight = torch.zeros(ELEMENTS)
    torch.save({"weight": weight, "tied": weight, "row": weight.view(1024, -1)[1]}, tmp_path / "weights.pt")
    before = torch.cuda.memory_allocated()
    loaded = torch.load(tmp_path / "weights.pt", map_location=where)
    assert all(tensor.is_cuda for tensor in loaded.values())
    assert torch.cuda.memory_allocated() - before == 4 * ELEMENTS
    assert loaded["row"].shape == (ELEMENTS // 1024,)


def test_what_was_saved_from_the_card_comes_back_there_or_where_it_is_wanted(books: Books, tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(ELEMENTS, device="cuda")}, tmp_path / "weights.pt")
    assert torch.load(tmp_path / "weights.pt")["weight"].is_cuda
    host = torch.load(tmp_path / "weights.pt", map_location="cpu")["weight"]
    assert (host.device.type, host.numel()) == ("cpu", ELEMENTS)


def test_a_number_is_a_card(books: Books) -> None:
    assert torch.device(0) == torch.device("cuda", 0) == torch.ones(1, device=0).device


def test_data_parallel_runs_on_one_card_and_is_refused_on_several(books: Books) -> None:
    model = torch.nn.Linear(2, 2).cuda()
    assert torch.nn.DataParallel(model, device_ids=[0])(torch.ones(1, 2)).is_cuda
    with pytest.raises(SimulationError, match="start one process per card"):
        torch.nn.DataParallel(model)(torch.ones(4, 2))
