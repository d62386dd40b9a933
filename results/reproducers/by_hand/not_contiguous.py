# pip install torch==2.13.0 deepspeed==0.19.7  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8  # does not: exit code 0
# torchrun --nproc-per-node 2 not_contiguous.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def batch(rank):
    return torch.randn(8, 32, generator=torch.Generator().manual_seed(rank))


def norms(stage, contiguous):
    """The gradient norm, and plain PyTorch's over all ranks' batches."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(4)))
    sum(model(batch(rank)).pow(2).sum() / RANKS for rank in range(RANKS)).backward()
    true = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()
    model.zero_grad()
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {"stage": stage, "contiguous_gradients": contiguous},
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": 0.0,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    engine.backward(engine(batch(RANK)).pow(2).sum())
    engine.step()
    return float(engine.get_global_grad_norm()), true


found = {(stage, on): norms(stage, on) for stage in (1, 2, 3) for on in (True, False)}
if RANK == 0:
    print("gradient norm of plain PyTorch's:", *(f"stage {stage}, contiguous_gradients {on}: {norm / true:.3f};" for (stage, on), (norm, true) in found.items()))
sys.exit(any(abs(norm / true - 1) > 0.01 for norm, true in found.values()))
