# pip install torch==2.13.0 deepspeed==0.19.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.5  # does not: exit code 0
# torchrun --nproc-per-node 1 step_operations.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "bf16": {"enabled": True}, "gradient_clipping": 0.0,
    "zero_optimization": {"stage": 0},
}


class Counted(torch.utils._python_dispatch.TorchDispatchMode):
    launches = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.launches += 1
        return operator(*args, **(kwargs or {}))


counted = Counted().__enter__()
model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4)))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    engine.backward(engine(torch.randn(8, 128, dtype=torch.bfloat16)).float().pow(2).sum())
    before = counted.launches
    engine.step()
    measured = counted.launches - before
print(f"{measured:,} operations in step, deepspeed 0.19.5 209, ratio {measured / 209:.3f}")
sys.exit(measured > 249)  # nearer to deepspeed 0.19.6, 289
