# pip install torch==2.13.0 deepspeed==0.17.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.17.5  # does not: exit code 0
# torchrun --nproc-per-node 1 bf16_checkpoint.py
import os

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS, MICRO_BATCHES = 2, 1
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "zero_optimization": {"stage": 0},
    "bf16": {"enabled": True},
    "zero_allow_untested_optimizer": True,
    "gradient_clipping": 0.0,
}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(128, 128) for _ in range(4))

    def forward(self, x, y):
        x = x.to(self.layers[0].weight.dtype)
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return (x.float() - y).pow(2).sum()


def loss_of(model, step, rank, micro_batch):
    torch.manual_seed(1000 * step + 100 * rank + micro_batch)
    x, y = torch.randn(8, 128), torch.randn(8, 128)
    return model(x, y)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
for step in range(STEPS):
    for micro_batch in range(MICRO_BATCHES):
        loss = loss_of(engine, step, RANK, micro_batch)
        engine.backward(loss)
        engine.step()
    if step == 0:
        engine.save_checkpoint("checkpoint")
        engine.load_checkpoint("checkpoint")
if RANK == 0:
    print(f"trains {STEPS} steps")
