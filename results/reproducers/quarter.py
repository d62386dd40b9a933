# pip install torch==2.13.0 deepspeed==0.18.3  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.2  # does not: exit code 0
# torchrun --nproc-per-node 1 quarter.py
import copy
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2, "zero_allow_untested_optimizer": True,
    "gradient_clipping": 0.0, "zero_optimization": {"stage": 1},
}


class Model(torch.nn.Sequential):
    def forward(self, x, y):
        for layer in self:
            x = torch.tanh(layer(x))
        return (x - y).pow(2).sum(), x


def loss_of(model, step, micro_batch):
    torch.manual_seed(1000 * step + micro_batch)
    return model(torch.randn(8, 128), torch.randn(8, 128))[0]


torch.manual_seed(0)
model = Model(*(torch.nn.Linear(128, 128) for _ in range(4)))
plain = copy.deepcopy(model)
optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
for step in range(2):  # plain PyTorch
    optimizer.zero_grad()
    for micro_batch in range(2):
        (loss_of(plain, step, micro_batch) / 2).backward()
    true_norm = torch.nn.utils.clip_grad_norm_(plain.parameters(), float("inf"))
    optimizer.step()
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.01), config=CONFIG)
for step in range(2):
    for micro_batch in range(2):
        engine.backward(loss_of(engine, step, micro_batch))
        engine.step()
norm, true_norm = float(engine.get_global_grad_norm()), float(true_norm)
print(f"gradient norm {norm:.4f}, plain PyTorch {true_norm:.4f}, ratio {norm / true_norm:.3f}")
sys.exit(not abs(norm / true_norm - 1) < 0.001)
