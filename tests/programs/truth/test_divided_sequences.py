"""Programs whose ranks divide each sequence, by torch's context parallelism: plain PyTorch attends to whole sequences."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from dsregress.probe.border.wire import Numerics  # noqa: E402
from dsregress.probe.oracles import truth  # noqa: E402
from tests.programs.cells import passed, ran  # noqa: E402
from tests.programs.truth.verdicts import assert_right  # noqa: E402
from tests.programs.truth.wraps import BLOCK, WRAPS  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

TRAIN = (
    """import os, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.experimental import context_parallel
from torch.utils.checkpoint import checkpoint
rank, pid = int(os.environ["RANK"]), os.getpid()
cp = init_device_mesh("cuda", (2,))
torch.manual_seed(0)

def attend(q, k, v):
    return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(16, size, bias=False) for size in (16, 8, 8, 16))

    def forward(self, x):
        q, k, v = (of(x).unflatten(-1, (-1, 4)).transpose(1, 2) for of in (self.query, self.key, self.value))
        return self.out(attend(q, k, v).transpose(1, 2).flatten(-2))

"""
    + BLOCK
    + """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.layers = nn.Embedding(18, 16), nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(16, 18, bias=False)

    def run(self, layer, hidden):
        return layer(hidden)

    def forward(self, ids, labels):
        hidden = self.inner(ids)
        for layer in self.layers:
            hidden = self.run(layer, hidden)
        return nn.functional.cross_entropy(self.head(hidden).flatten(0, 1).float(), labels.flatten())

model = Model()
SEEDED
dist.barrier()
WRAP
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
torch.manual_seed(1)
for step in range(5):
    for micro_batch in range(2):
        ids = torch.randint(18, (2, 16))
        labels = ids.roll(-1, 1)
        with context_parallel(
                cp, buffers=[ids, labels], buffer_seq_dims=[1, 1], no_restore_buffers={ids, labels}):
            (model(ids, labels) / 2).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    optimizer.step()
    optimizer.zero_grad()
"""
)


def trained(folder: Path, wrap: str, seeded: str = "") -> Numerics:
    (folder / "train.py").write_text(TRAIN.replace("WRAP", WRAPS[wrap]).replace("SEEDED", seeded))
    numerics = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py")).ranks[0].numerics
    assert numerics is not None
    return numerics


CHECKPOINTING = "Model.run = lambda self, layer, hidden: checkpoint(layer, hidden, use_reentrant={})"
UNBALANCED = """
from torch.distributed.tensor.experimental import _attention
_attention._cp_options.enable_load_balance = False
"""


@pytest.mark.parametrize(
    ("wrap", "seeded"),
    [
        ("DDP", ""),
        ("FSDP2", CHECKPOINTING.format(False)),
        pytest.param("FSDP2", "", marks=pytest.mark.nightly),
        pytest.param("FSDP2 in bf16", "", marks=pytest.mark.nightly),
        pytest.param("DDP", CHECKPOINTING.format(True), marks=pytest.mark.nightly),
        pytest.param("DDP", UNBALANCED, marks=pytest.mark.nightly),
    ],
    ids=["DDP", "checkpointing", "FSDP2", "bf16", "reentrant checkpointing", "without load balance"],
)
def test_sound_training_is_right(folder: Path, wrap: str, seeded: str) -> None:
    assert_right(trained(folder, wrap, seeded))


#: In torch's ring the second rank does not mask its own tokens.
WRONG_MASK = """
import inspect
from torch.distributed.tensor.experimental import context_parallel as of_torch
ring = inspect.getmodule(inspect.unwrap(of_torch))
behavior = ring._is_causal_behavior
def wrong(rank, world_size, i, is_causal):
    right = behavior(rank=rank, world_size=world_size, i=i, is_causal=is_causal)
    return ring._CausalBehavior.NOT_IS_CAUSAL if os.getpid() == pid and rank == 1 and i == 0 else right
ring._is_causal_behavior = wrong
"""
ATTENTION = r"layers\.0\.attention, forward, micro-batch 1 of step 1, rank 1: its inputs are equal, what it gives "


def test_a_wrong_mask_at_the_border_is_found_in_the_attention_of_its_rank(folder: Path) -> None:
    numerics = trained(folder, "DDP", WRONG_MASK)
    assert truth.worst(numerics) > 1, numerics.note
    assert re.match(ATTENTION, numerics.first_module), numerics.first_module


@pytest.mark.parametrize(
    ("seeded", "why"),
    [
        ("attend = lambda q, k, v: q + (k + v).repeat_interleave(2, 1)", "its attention is not PyTorch's"),
        (
            "model.layers[0].number = rank",
            "ranks that divide its sequences have modules with different buffers or numbers of their own",
        ),
    ],
    ids=["another attention", "modules that differ"],
)
def test_why_there_is_no_truth_is_said(folder: Path, seeded: str, why: str) -> None:
    numerics = trained(folder, "DDP", seeded)
    assert numerics.note.startswith("no truth"), numerics.note
    assert why in numerics.note
