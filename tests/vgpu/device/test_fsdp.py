"""FSDP1 trains in sim with each way to shard, and holds what it holds on a GPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy  # noqa: E402

from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.ledger import DEVICE  # noqa: E402

WEIGHT_BYTES = 4 * 256 * 256


@pytest.mark.parametrize(("strategy", "kept"), [("FULL_SHARD", 0), ("SHARD_GRAD_OP", 2), ("NO_SHARD", 0)])
def test_it_trains_with_the_parameters_of_the_program(strategy: str, kept: int, books: Books) -> None:
    dist.init_process_group("nccl")

    def sharded(module: torch.nn.Module) -> torch.nn.Module:
        how = ShardingStrategy[strategy]
        return FullyShardedDataParallel(module, sharding_strategy=how, use_orig_params=True, device_id=0)

    layers = [sharded(torch.nn.Linear(256, 256, bias=False, device="cuda")) for _ in range(2)]
    model = sharded(torch.nn.Sequential(*layers))
    freed = 0
    for _ in range(2):
        loss = model(torch.ones(1, 256, device="cuda")).sum()
        before = books.ledger.live[DEVICE]
        loss.backward()
        freed = before - books.ledger.live[DEVICE]
    assert freed == pytest.approx(kept * WEIGHT_BYTES, abs=WEIGHT_BYTES // 4)  # gathered weights, kept for backward
