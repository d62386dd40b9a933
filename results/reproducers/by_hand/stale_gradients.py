# pip install torch==2.13.0 deepspeed==0.17.0  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.17.1  # does not: exit code 0
# torchrun --nproc-per-node 1 stale_gradients.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
from deepspeed.utils import safe_get_full_grad

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
type(deepspeed.get_accelerator()).is_fp16_supported = lambda self: True  # slow on a processor, but the same code
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "fp16": {"enabled": True, "initial_scale_power": 8, "hysteresis": 1},
    "zero_allow_untested_optimizer": True,
}


def finite(stage):
    """Whether the gradients that `safe_get_full_grad` gives are finite, of each step, and whether the steps were skipped."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    config = {**CONFIG, "zero_optimization": {"stage": stage}}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    are_finite, skipped = [], []
    for step in range(4):
        loss = (engine(torch.randn(8, 32).half()).float() - torch.randn(8, 32)).pow(2).sum()
        engine.backward(loss * float("inf") if step == 1 else loss)
        are_finite.append(all(safe_get_full_grad(weight).isfinite().all().item() for weight in model.parameters()))
        before = engine.skipped_steps
        engine.step()
        skipped.append(engine.skipped_steps > before)
    return are_finite, skipped


found = {stage: finite(stage) for stage in (1, 2)}
print("; ".join(f"stage {stage}: gradients finite {are_finite}, step skipped {skipped}" for stage, (are_finite, skipped) in found.items()))
sys.exit(any(are_finite != [True, False, True, True] for are_finite, _ in found.values()))
