# pip install torch==2.13.0 deepspeed==0.16.4  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.9  # does not: exit code 0
# torchrun --nproc-per-node 1 fp16_loss_scale.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
type(deepspeed.get_accelerator()).is_fp16_supported = lambda self: True  # slow on a processor, but the same code
STEPS = 30
DOCUMENTED = 2**16  # the default of initial_scale_power is 16


def begins_at_and_skips(stage):
    """The loss scale of the first step, how many of the steps are skipped, and the gradient norm that the first one reports."""
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "fp16": {"enabled": True},
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    norms, began = [], getattr(engine.optimizer, "cur_scale", None) or engine.optimizer.loss_scale
    for _ in range(STEPS):
        x, y = torch.randn(8, 32).half(), torch.randn(8, 32)
        engine.backward((engine(x).float() - y).pow(2).sum())
        engine.step()
        norms.append(engine.get_global_grad_norm())
    return float(began), engine.skipped_steps, norms[0]


found = {stage: begins_at_and_skips(stage) for stage in (1, 2, 3)}
print("; ".join(f"stage {stage}: begins at {began:,.0f}, {skipped} of {STEPS} steps skipped, norm of the first {norm}" for stage, (began, skipped, norm) in found.items()))
sys.exit(any(began != DOCUMENTED for began, *_ in found.values()))
