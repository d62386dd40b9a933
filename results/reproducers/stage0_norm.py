# pip install torch==2.13.0 deepspeed==0.17.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.17.5  # does not: exit code 0
# torchrun --nproc-per-node 1 stage0_norm.py
import copy
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "zero_allow_untested_optimizer": True, "bf16": {"enabled": True},
    "gradient_clipping": 0.0, "zero_optimization": {"stage": 0},
}


def loss_of(model, step):
    torch.manual_seed(1000 * step)
    x, y = torch.randn(8, 128).to(next(model.parameters()).dtype), torch.randn(8, 128)
    return (model(x).float() - y).pow(2).sum()


torch.manual_seed(0)
model = torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(128, 128), torch.nn.Tanh())))
plain = copy.deepcopy(model)
optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
for step in range(2):  # plain PyTorch
    optimizer.zero_grad()
    loss_of(plain, step).backward()
    true_norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), float("inf"))
    optimizer.step()
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), config=CONFIG)
for step in range(2):
    engine.backward(loss_of(engine, step))
    engine.step()
norm, true_norm = float(engine.get_global_grad_norm()), float(true_norm)
print(f"gradient norm {norm:.4f}, plain PyTorch {true_norm:.4f}, ratio {norm / true_norm:.3f}")
sys.exit(not abs(norm / true_norm - 1) < 0.02)
