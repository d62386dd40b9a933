# pip install torch==2.13.0 deepspeed==0.19.3  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.2  # does not: exit code 0
# torchrun --nproc-per-node 1 clipping_default.py
import copy
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "zero_allow_untested_optimizer": True, "zero_optimization": {"stage": 0},
}


def loss_of(model, step):
    torch.manual_seed(1000 * step)
    return (model(torch.randn(8, 128)) - torch.randn(8, 128)).pow(2).sum()


torch.manual_seed(0)
model = torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(128, 128), torch.nn.Tanh())))
plain = copy.deepcopy(model)
start = [p.detach().clone() for p in plain.parameters()]
optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
for step in range(2):  # plain PyTorch
    optimizer.zero_grad()
    loss_of(plain, step).backward()
    optimizer.step()
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), config=CONFIG)
for step in range(2):
    engine.backward(loss_of(engine, step))
    engine.step()
gap = moved = 0.0
for mine, true, first in zip(model.parameters(), plain.parameters(), start):
    with deepspeed.zero.GatheredParameters(mine), torch.no_grad():
        gap, moved = gap + (mine.float() - true).norm() ** 2, moved + (true - first).norm() ** 2
off = float((gap / moved) ** 0.5)
print(f"updated weights are {off:.3f} of plain PyTorch's movement away from plain PyTorch's")
sys.exit(not off < 0.01)
