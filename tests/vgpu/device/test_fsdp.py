"""FSDP1 trains in sim with each way to shard, and holds what it holds on a GPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy  # noqa: E402

from vgpu import frameworks  # noqa: E402
from vgpu.device.books import Books  # noqa: E402
from vgpu.meters.ledger import DEVICE  # noqa: E402

frameworks.import_deepspeed()  # which accelerate would import within

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


def test_frozen_weights_of_the_root_are_sharded_again_after_backward(books: Books) -> None:
    """As an embedding beside LoRA's layers: no gradient of its own tells FSDP that it is done with."""
    dist.init_process_group("nccl")
    frozen = torch.nn.Linear(256, 256, bias=False, device="cuda").requires_grad_(False)
    trained = torch.nn.Linear(256, 256, bias=False, device="cuda")
    inner = FullyShardedDataParallel(trained, use_orig_params=True, device_id=0)
    model = FullyShardedDataParallel(torch.nn.Sequential(frozen, inner), use_orig_params=True, device_id=0)
    held = []
    for _ in range(2):
        model(torch.ones(1, 256, device="cuda")).sum().backward()
        held.append(books.ledger.live[DEVICE] - _workspaces(books))
    shards = 2 * WEIGHT_BYTES // 4 + WEIGHT_BYTES // 4  # of both weights, and of one gradient
    assert held == pytest.approx([shards] * 2, abs=WEIGHT_BYTES // 8)


def _workspaces(books: Books) -> int:
    return len(books._workspaces) * books.card.blas_workspace_bytes


@pytest.mark.usefixtures("books")
def test_accelerate_gives_the_optimizer_each_sharded_parameter() -> None:
    """It finds them by the addresses that they had before they were sharded."""
    accelerate = pytest.importorskip("accelerate")
    if not hasattr(accelerate.FullyShardedDataParallelPlugin, "fsdp_version"):
        pytest.skip("this accelerate has no FSDP2")
    plugin = accelerate.FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", transformer_cls_names_to_wrap=["Linear"]
    )
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16, bias=False, device="cuda") for _ in range(3)))
    optimizer = torch.optim.SGD(model.parameters())
    model, optimizer = accelerate.Accelerator(fsdp_plugin=plugin).prepare(model, optimizer)
    assert [*map(id, optimizer.param_groups[0]["params"])] == [*map(id, model.parameters())]
