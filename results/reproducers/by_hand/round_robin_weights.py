# pip install torch==2.13.0 deepspeed==0.19.8  # shows the fault: exit code 1; so do 0.15.0 and 0.16.8
# torchrun --nproc-per-node 2 round_robin_weights.py
import copy
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
from deepspeed.utils import safe_get_full_fp32_param

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
torch.manual_seed(0)
built = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))


def wrong_parameters(round_robin):
    model = copy.deepcopy(built)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 2, "round_robin_gradients": round_robin},
        "zero_allow_untested_optimizer": True,
    }
    deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), config=config)
    pairs = zip(model.parameters(), built.parameters(), strict=True)
    return sum(not torch.allclose(safe_get_full_fp32_param(mine), true, atol=0.01) for mine, true in pairs)


off, on = wrong_parameters(False), wrong_parameters(True)
if os.environ["RANK"] == "0":
    print(f"fp32 weights of another parameter: {off} of 8, with round_robin_gradients {on} of 8")
sys.exit(on > 0)
