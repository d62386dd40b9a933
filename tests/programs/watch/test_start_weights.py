"""The weights with which a model trains first."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import LAST_ROW  # noqa: E402
from dsregress.programs.watch.start_weights import start_weights  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

TRAINING = """
import torch
model = torch.nn.Linear(8, 4)
torch.nn.init.constant_(model.weight, 0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
for step in range(5):
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
"""


def test_alike_layers_are_one_entry_and_frozen_weights_count() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False))
    for number, layer in enumerate(model):
        torch.nn.init.constant_(layer.weight, number + 1.0)
    model[0].requires_grad_(False)
    assert start_weights(model) == {"*.weight": [1.5, 32]}


def test_buffers_of_floats_are_entries_of_their_own() -> None:
    model = torch.nn.Module()
    model.register_buffer("scale", torch.full((8,), 2.0), persistent=False)
    model.register_buffer("unset", torch.full((8,), float("nan")))
    model.register_buffer("places", torch.arange(8))
    assert start_weights(model) == {"buffer scale": [2.0, 8]}


def test_last_rows_of_a_vocabulary_are_entries_of_their_own() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(3, 8), torch.nn.Linear(8, 3, bias=False), torch.nn.Linear(8, 8))
    for weight in model.parameters():
        torch.nn.init.constant_(weight, 1.0)
    with torch.no_grad():
        model[0].weight[-1] = 4.0
        model[1].weight[-1] = 2.0
    rows = {name: mean for name, mean in start_weights(model).items() if name.endswith(LAST_ROW)}
    assert rows == {"*.weight (last row)": [3.0, 16]}


def test_weights_without_values_are_left_out() -> None:
    with torch.device("meta"):
        assert start_weights(torch.nn.Linear(4, 4)) == {}


@pytest.mark.parametrize("device", ["cpu", "sim"])
def test_what_a_program_begins_with_is_recorded_before_its_first_step(device: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    (rank,) = passed(ran(tmp_path, device, 1, "python train.py")).ranks
    assert rank.numerics is not None
    assert rank.numerics.start.get("weight") == ([0.5, 32] if device == "cpu" else None)
    assert (rank.steps, rank.ended) == ((5, True) if device == "cpu" else (0, False))
