"""A model that evaluates drops nothing at random; where a part of it still does, training is judged by noise."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

PROGRAM = """
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Dropout(RATE), torch.nn.Linear(4, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.randn(2, 8)).pow(2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    EVALUATE
    with torch.no_grad():
        model(torch.randn(2, 8))
    model.train()
"""

LEFT_ON = "model.training = False"  # as an eval() that a wrapper does not pass on


@pytest.mark.parametrize(
    ("evaluate", "rate", "dropping"),
    [
        ("model.eval()", 0.5, []),
        (LEFT_ON, 0.5, ["1"]),
        (LEFT_ON, 0.0, []),
        ("model.train()", 0.5, []),
    ],
    ids=["off", "left on", "of nothing", "trained without gradients"],
)
def test_dropout_that_is_on_in_an_evaluation_is_found(
    folder: Path, evaluate: str, rate: float, dropping: list[str]
) -> None:
    (folder / "train.py").write_text(PROGRAM.replace("EVALUATE", evaluate).replace("RATE", str(rate)))
    rank = passed(ran(folder, "cpu", 1, "python train.py")).ranks[0]
    assert rank.numerics is not None
    assert rank.numerics.dropping == dropping


WITHIN = """
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.values = nn.Linear(8, 8)

    def forward(self, x):
        heads = self.values(x).unflatten(-1, (2, 4)).transpose(1, 2)
        DROPS

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.randn(2, 3, 8)).pow(2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        model(torch.randn(2, 3, 8))
    model.train()
"""
ATTENDS = (
    "return nn.functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=P).transpose(1, 2).flatten(-2)"
)


@pytest.mark.parametrize(
    ("drops", "dropping"),
    [
        (ATTENDS.replace("P)", "0.1)"), ["layers.0", "layers.1"]),
        (ATTENDS.replace("P)", "0.1 * self.training)"), []),
        ("return nn.functional.dropout(x + heads.mean(), 0.1)", []),
        ("return x + heads.mean() + torch.randn(()) + torch.bernoulli(heads.mean().sigmoid())", []),
    ],
    ids=["attention", "attention in training alone", "on purpose", "what it samples"],
)
def test_attention_that_drops_out_in_an_evaluation_is_named(folder: Path, drops: str, dropping: list[str]) -> None:
    (folder / "train.py").write_text(WITHIN.replace("DROPS", drops))
    rank = passed(ran(folder, "cpu", 1, "python train.py")).ranks[0]
    assert rank.numerics is not None
    assert rank.numerics.dropping == dropping
