# pip install torch==2.13.0 deepspeed==0.19.7  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8  # does not: exit code 0
# torchrun --nproc-per-node 2 gather_race.py
import os
import sys
import time

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
STEPS = 200
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "zero_optimization": {"stage": 3},  # parameters of up to 100,000 numbers stay gathered from step to step
    "zero_allow_untested_optimizer": True,
}
torch.manual_seed(0)
model = torch.nn.Linear(300, 300)  # gathered together after each step: a weight, which takes longer, and a bias
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
changed = 0
for _ in range(STEPS):
    engine.backward(engine(torch.randn(8, 300)).pow(2).sum())
    engine.step()
    read = model.weight.detach().clone()
    time.sleep(0.01)  # nobody writes weights now
    changed += not torch.equal(read, model.weight.detach())
total = torch.tensor(changed)
torch.distributed.all_reduce(total)
if os.environ["RANK"] == "0":
    print(f"weights that were still being gathered after engine.step(): in {total} of {2 * STEPS} reads")
sys.exit(int(total > 0))
