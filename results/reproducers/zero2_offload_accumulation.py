# pip install torch==2.13.0 deepspeed==0.15.2  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.15.1  # does not: exit code 0
# torchrun --nproc-per-node 1 zero2_offload_accumulation.py
import copy
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4, "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False, "gradient_clipping": 0.0,
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
}


def loss_of(model, step, micro_batch):
    torch.manual_seed(1000 * step + micro_batch)
    return (model(torch.randn(8, 128)) - torch.randn(8, 128)).pow(2).sum()


torch.manual_seed(0)
model = torch.nn.Sequential(*(part for _ in range(4) for part in (torch.nn.Linear(128, 128), torch.nn.Tanh())))
plain = copy.deepcopy(model)
optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
for step in range(2):  # plain PyTorch
    optimizer.zero_grad()
    for micro_batch in range(4):
        (loss_of(plain, step, micro_batch) / 4).backward()
    true_norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), float("inf"))
    optimizer.step()
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), config=CONFIG)
for step in range(2):
    for micro_batch in range(4):
        engine.backward(loss_of(engine, step, micro_batch))
        engine.step()
norm, true_norm = float(engine.get_global_grad_norm()), float(true_norm)
print(f"gradient norm {norm:.4f}, plain PyTorch {true_norm:.4f}, ratio {norm / true_norm:.3f}")
sys.exit(not abs(norm / true_norm - 1) < 0.001)
