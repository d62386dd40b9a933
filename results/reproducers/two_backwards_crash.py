# pip install torch==2.13.0 deepspeed==0.17.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.17.5  # does not: exit code 0
# torchrun --nproc-per-node 1 two_backwards_crash.py
import os

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {"train_micro_batch_size_per_gpu": 8, "gradient_clipping": 0.0, "zero_optimization": {"stage": 1}}
model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4)))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    loss = engine(torch.randn(8, 128)).pow(2).sum()
    engine.backward(loss)
    again = engine(torch.randn(8, 128)).pow(2).sum()
    engine.backward(again)
    engine.step()
print("trains 2 steps")
