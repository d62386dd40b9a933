# pip install torch==2.13.0 deepspeed==0.16.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.16.5  # does not: exit code 0
# torchrun --nproc-per-node 1 infinite_gradient.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {"train_micro_batch_size_per_gpu": 8, "gradient_clipping": 0.0, "zero_optimization": {"stage": 1}}


def loss_of(model, step):
    torch.manual_seed(1000 * step)
    return (model(torch.randn(8, 128)) - torch.randn(8, 128)).pow(2).sum()


torch.manual_seed(0)
model = torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(128, 128), torch.nn.Tanh())))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    loss = loss_of(engine, step)
    if step == 1:
        loss = loss * float("inf")
    engine.backward(loss)
    engine.step()
norm = float(engine.get_global_grad_norm())
with deepspeed.zero.GatheredParameters(list(model.parameters())):
    finite = all(p.isfinite().all() for p in model.parameters())
print(f"an infinite gradient: gradient norm {norm}, weights {'finite' if finite else 'not finite'}")
sys.exit(0 <= norm < float("inf") and not finite)
