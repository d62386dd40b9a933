"""Pairs of linear layers that widen and narrow again: under ZeRO-1 in bf16, and in fp32 under plain PyTorch and DDP."""

import argparse
import os

import torch
from torch import nn

CONFIG = {
    "train_micro_batch_size_per_gpu": 32,
    "gradient_accumulation_steps": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
    "zero_optimization": {
        "stage": 1, "reduce_bucket_size": 500_000_000, "allgather_bucket_size": 500_000_000, "overlap_comm": True,
        "contiguous_gradients": True,
    },
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
}  # fmt: skip


def after_step():
    return torch.cuda.max_memory_allocated()


def under_zero(layers: int) -> None:
    import deepspeed

    deepspeed.init_distributed()
    blocks = [[nn.Linear(4096, 16384), nn.GELU(), nn.Linear(16384, 4096)] for _ in range(layers)]
    model = nn.Sequential(*(part for block in blocks for part in block))
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
    loss_of = nn.MSELoss()
    for _ in range(100):
        x = torch.randn(32, 4096, device=engine.device, dtype=torch.bfloat16)
        y = torch.randn(32, 4096, device=engine.device, dtype=torch.bfloat16)
        loss = loss_of(engine(x), y)
        engine.backward(loss)
        engine.step()
        after_step()


def plain(width: int, wide: int, batch: int) -> None:
    """On one card, or on several under DDP."""
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    model = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, wide), nn.GELU(), nn.Linear(wide, width))
    model = model.to(device)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        torch.distributed.init_process_group("nccl")
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(100):
        x, y = torch.randn(batch, width, device=device), torch.randn(batch, width, device=device)
        optimizer.zero_grad(set_to_none=True)
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
        after_step()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=0)
    parser.add_argument("--layers", type=int, help="Under ZeRO-1, as many pairs.")
    parser.add_argument("--plain", type=int, nargs=3, metavar=("WIDTH", "WIDE", "BATCH"))
    args = parser.parse_args()
    if args.plain:
        plain(*args.plain)
    else:
        under_zero(args.layers)
