"""Replicas of DistributedDataParallel have the same weights after a step; where a rank has others, training is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.programs.cells import passed, ran  # noqa: E402

pytestmark = pytest.mark.usefixtures("surroundings")

PROGRAM = """
import contextlib, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 4).to("cuda"), device_ids=[rank])
HOOK
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(6):
    data = torch.randn((2, 8), generator=torch.Generator().manual_seed(10 * step + rank)).to("cuda")
    with SYNCED:
        model(data).pow(2).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

OWN_WAY = """
def kept(state, bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future

model.register_comm_hook(None, kept)
"""


def apart(folder: Path, *, synced: str = "contextlib.nullcontext()", hook: str = "") -> int:
    """Ranks whose weights are not the first one's, if a step is taken within ``synced``."""
    (folder / "train.py").write_text(PROGRAM.replace("SYNCED", synced).replace("HOOK", hook))
    rank = passed(ran(folder, "cpu", 2, "torchrun --nproc_per_node 2 train.py", warmup_steps=1)).ranks[0]
    assert rank.numerics is not None
    return rank.numerics.replicas_apart


def test_replicas_that_share_their_gradients_are_equal(folder: Path) -> None:
    assert apart(folder) == 0


@pytest.mark.parametrize(
    "fault",
    ["model.no_sync()", "model.no_sync() if step == 1 else contextlib.nullcontext()"],
    ids=["no gradient is shared", "that of one step is not"],
)
def test_a_gradient_that_is_not_shared_leaves_them_apart(fault: str, folder: Path) -> None:
    assert apart(folder, synced=fault) == 1


def test_a_programs_own_way_of_combining_gradients_may_keep_them_apart(folder: Path) -> None:
    assert apart(folder, hook=OWN_WAY) == 0
