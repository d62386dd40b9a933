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
