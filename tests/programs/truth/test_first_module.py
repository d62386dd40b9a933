"""The first module that differs from plain PyTorch is named, on gloo ranks: the one where a fault was put, and none of sound
training. A fault is in the program's own processes alone: plain PyTorch computes in another one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import Numerics  # noqa: E402
from dsregress.programs.truth import first_module, step_truth  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402
from tests.programs.truth.wraps import BLOCK, OF_DDP, OF_FSDP2, WRAPS  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

TRAIN = (
    """
import os, torch
import torch.distributed as dist
from torch import nn
if RANKS > 1:
    dist.init_process_group("nccl")
rank, pid = int(os.environ.get("RANK", "0")), os.getpid()
torch.manual_seed(0)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, 16, bias=False) for _ in range(4))
        self.wrong = lambda: False

    def forward(self, x):
        q, k, v = (of(x).unflatten(-1, (2, 8)).transpose(1, 2) for of in (self.query, self.key, self.value))
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=not self.wrong())
        return self.out(attended.transpose(1, 2).flatten(-2))

"""
    + BLOCK
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layers = nn.Embedding(17, 16), nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(16, 17, bias=False)

    def forward(self, ids, labels):
        hidden = self.inner(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        logits = self.head(hidden)
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten()), "logits": logits}

model = Model()
WRAP
layer = getattr(model, "module", model).layers[1]
FAULT
torch.manual_seed(1 + rank)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(5):
    for micro_batch in range(2):
        ids = torch.randint(17, (2, 9))
        (model(ids, labels=ids)["loss"] / 2).backward()
    optimizer.step()
    optimizer.zero_grad()
"""
)

#: Changes what a module gives, if ``change`` does.
FORWARD = """
def faulty(module, change):
    forward = module.forward
    module.forward = lambda x: change(forward, x) if os.getpid() == pid else forward(x)
"""
SCALED = FORWARD + "faulty(layer.mlp.up, lambda forward, x: 1.01 * forward(x))"
WRONG_MASK = "layer.attention.wrong = lambda: os.getpid() == pid and rank == RANKS - 1 and micro_batch == 1"
GRADIENT = (
    FORWARD
    + """
class NineTenths(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 0.9 * gradient

faulty(layer.mlp.up, lambda forward, x: forward(NineTenths.apply(x)))
"""
)
BESIDE = (
    FORWARD
    + """
gelu = nn.functional.gelu
class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return gelu(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient

nn.functional.gelu = lambda x: Wrong.apply(x) if os.getpid() == pid else gelu(x)
"""
)
WEIGHT = "change = lambda name, gradient: 0.9 * gradient if name == 'layers.1.mlp.up.weight' else gradient\n"


def trained(folder: Path, wrap: str, fault: str = "") -> Numerics:
    ranks = 1 if wrap == "one process" else 2
    program = TRAIN.replace("WRAP", WRAPS[wrap]).replace("FAULT", fault).replace("RANKS", str(ranks))
    (folder / "train.py").write_text(program)
    line = "python train.py" if ranks == 1 else f"torchrun --nproc_per_node {ranks} train.py"
    numerics = passed(ran(folder, "cpu", ranks, line)).ranks[0].numerics
    assert numerics is not None
    return numerics


OFF = r"\d+(\.\d+)?(e\+\d+)? tolerances off"


@pytest.mark.parametrize("wrap", [pytest.param("DDP", marks=pytest.mark.nightly), "FSDP2"])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            SCALED,
            r"layers\.1\.mlp\.up, forward, micro-batch 1 of step 1, each rank: its inputs are equal, its output is "
            rf"{OFF}; called from train\.py:\d+ in forward",
        ),
        (
            WRONG_MASK,
            r"layers\.1\.attention, forward, micro-batch 2 of step 1, rank 1: its inputs are equal, what it gives "
            rf"layers\.1\.attention\.out is {OFF}; called from train\.py:\d+ in forward",
        ),
        (
            GRADIENT,
            r"layers\.1\.mlp\.up, backward, micro-batch 1 of step 1, each rank: the gradient of its output is equal, that "
            rf"of its input is {OFF}; called from train\.py:\d+ in forward",
        ),
        (
            BESIDE,
            r"layers\.1\.mlp, backward, micro-batch 1 of step 1, each rank: the gradient of what layers\.1\.mlp\.up returns "
            rf"to it is {OFF}, those after it are equal; called from train\.py:\d+ in forward",
        ),
        (
            WEIGHT,
            r"layers\.1\.mlp\.up, step 1: all inputs, outputs and their gradients are equal, the gradient of its weight is "
            r"not",
        ),
    ],
    ids=["forward scaled", "a wrong mask", "gradient x 0.9", "a function's gradient", "a weight's gradient x 0.9"],
)
def test_the_module_with_a_fault_is_named(folder: Path, wrap: str, fault: str, said: str) -> None:
    more = "" if fault != WEIGHT else OF_DDP if wrap == "DDP" else OF_FSDP2
    numerics = trained(folder, wrap, fault + more)
    assert re.fullmatch(said, numerics.first_module), (numerics.first_module, numerics.note)


@pytest.mark.parametrize("wrap", WRAPS)
def test_no_module_of_sound_training_is_named(folder: Path, wrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[float] = []
    judge: Callable[[Any], None] = step_truth._Judge.judge
    error: Callable[..., float] = first_module.ComparedCall._error

    def noted(one: object, *tensors: object) -> float:
        compared.append(error(one, *tensors))
        return compared[-1]

    def searched(one: Any) -> None:
        judge(one)
        one.name_the_first_module()
        one._numerics.note = f"{len(compared)} compared, the worst {max(compared):.3g}"

    monkeypatch.setattr(first_module.ComparedCall, "_error", noted)
    monkeypatch.setattr(step_truth._Judge, "judge", searched)
    numerics = trained(folder, wrap)
    assert numerics.first_module == "no module: all inputs, outputs and their gradients are equal"
    assert int(numerics.note.split()[0]) > 200 * (1 if wrap == "one process" else 2), numerics.note
