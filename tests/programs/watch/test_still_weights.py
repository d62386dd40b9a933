"""Which trained weights no step moves."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsregress.programs.watch.still_weights import StillWeights  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402


def network(**options: object) -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.ModuleDict(
        {
            "body": torch.nn.Sequential(torch.nn.Linear(64, 64, **options), torch.nn.Linear(64, 64, **options)),
            "norm": torch.nn.LayerNorm(64, **options),
            "head": torch.nn.Linear(64, 64, **options),
        }
    )


def move(module: torch.nn.Module, size: float = 1e-4) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += size


def test_weights_that_stay_as_they_are_while_others_move_are_named() -> None:
    model = network()
    still = StillWeights(model)
    move(model["body"])
    move(model["norm"])
    assert still.unmoved(model) == ["head.weight", "head.bias"]


def test_tensors_alike_are_still_only_together() -> None:
    model = network()
    still = StillWeights(model)
    move(model["body"][0])
    assert still.unmoved(model) == ["norm.weight", "norm.bias", "head.weight", "head.bias"]


def test_frozen_weights_are_no_still_ones() -> None:
    model = network()
    model["head"].requires_grad_(False)
    still = StillWeights(model)
    move(model["body"])
    move(model["norm"])
    assert still.unmoved(model) == []


def test_nothing_is_said_if_nothing_moves() -> None:
    model = network()
    assert StillWeights(model).unmoved(model) == []


def test_values_too_coarse_for_an_update_say_nothing() -> None:
    model = network(dtype=torch.bfloat16)
    still = StillWeights(model)
    move(model["body"])
    move(model["norm"])  # ones, to which bf16 cannot add so little
    assert still.unmoved(model) == ["head.weight", "head.bias"]


MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)

    def forward(self, rows):
        hidden = self.body(rows)
        with torch.no_grad():
            logits = self.head(hidden)
        return (hidden + logits).square().mean()
"""

PLAIN = """
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    model(torch.randn(4, 64)).backward()
    optimizer.step()
    optimizer.zero_grad()
"""

SHARDED = """
import deepspeed

model = Model()
config = {
    "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "torch_adam": True, "weight_decay": 0.0}},
    "zero_optimization": {"stage": STAGE},
}
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for step in range(6):
    engine.backward(engine(torch.randn(4, 64, device=engine.device)))
    engine.step()
"""


@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize(("line", "ranks", "script"), [
    ("python train.py", 1, PLAIN),
    ("deepspeed --num_gpus 2 train.py", 2, SHARDED.replace("STAGE", "2")),
    ("deepspeed --num_gpus 2 train.py", 2, SHARDED.replace("STAGE", "3")),
])  # fmt: skip
def test_a_head_that_is_cut_from_the_loss_is_named(folder: Path, line: str, ranks: int, script: str) -> None:
    if ranks > 1:
        pytest.importorskip("deepspeed")
    (folder / "train.py").write_text(MODEL + script)
    numbers = passed(ran(folder, "cpu", ranks, line)).ranks[0].numerics
    assert numbers is not None
    assert sum(numbers.trained.values()) == 2 * (64 * 64 + 64)
    assert [name.removeprefix("module.") for name in numbers.still] == ["head.weight", "head.bias"]
