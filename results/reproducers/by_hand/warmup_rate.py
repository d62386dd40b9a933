# pip install torch==2.13.0 deepspeed==0.16.9  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.17.5  # does not: exit code 0
# torchrun --nproc-per-node 1 warmup_rate.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
RATE, STEPS = 0.01, 4
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2, "warmup_type": "linear"}},  # and no warmup_max_lr
    "zero_allow_untested_optimizer": True,
}
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
rates = []
for _ in range(STEPS):
    rates.append(optimizer.param_groups[0]["lr"])
    engine.backward(engine(torch.randn(8, 8)).pow(2).sum())
    engine.step()
print(f"optimizer's rate {RATE}, rates of the steps with WarmupLR: {', '.join(map(str, rates))}")
sys.exit(rates[-1] != RATE)
