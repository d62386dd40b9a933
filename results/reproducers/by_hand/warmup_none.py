# pip install torch==2.13.0 deepspeed==0.19.3  # ends in initialize: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.2  # trains: exit code 0
import os
import sys

import torch

os.environ.update(
    DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1"
)
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
# What transformers' Trainer writes for "auto" where no warmup is asked for, which is its default.
SCHEDULE = {"warmup_min_lr": 0.0, "warmup_max_lr": 0.01, "warmup_num_steps": 0, "total_num_steps": 20}
CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 3},
    "zero_allow_untested_optimizer": True,
    "scheduler": {"type": "WarmupDecayLR", "params": SCHEDULE},
}

model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
rates = []
try:
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    for _ in range(4):
        engine.backward(engine(torch.randn(4, 32)).pow(2).sum())
        rates.append(round(optimizer.param_groups[0]["lr"], 5))
        engine.step()
except ValueError as error:
    print(f"deepspeed {deepspeed.__version__}: ValueError: {error}")
    sys.exit(1)
print(f"deepspeed {deepspeed.__version__}: trains; learning rates of the first steps: {', '.join(map(str, rates))}")
