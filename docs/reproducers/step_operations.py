# pip install torch==2.13.0 deepspeed==0.19.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.5  # does not: exit code 0
# torchrun --nproc-per-node 1 step_operations.py
import os
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
STEPS, MICRO_BATCHES = 2, 1
EXPECTED = 209  # as in deepspeed 0.19.5
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "zero_optimization": {"stage": 0, "reduce_bucket_size": 4096},
    "zero_allow_untested_optimizer": True,
    "bf16": {"enabled": True},
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


class Counted(TorchDispatchMode):
    collectives = moved_bytes = launches = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.launches += 1
        if operator.namespace == "c10d":
            self.collectives += 1
            self.moved_bytes += sum(t.nbytes for t in tree_flatten(args)[0] if isinstance(t, torch.Tensor))
        return operator(*args, **(kwargs or {}))


counted = Counted()
counted.__enter__()
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
for step in range(STEPS):
    measured = 0
    for micro_batch in range(MICRO_BATCHES):
        loss = loss_of(engine, step, RANK, micro_batch)
        engine.backward(loss)
        before = counted.launches
        engine.step()
        measured += counted.launches - before
if RANK == 0:
    print(f"{measured:,} operations in step, deepspeed 0.19.5 {EXPECTED:,}, ratio {measured / EXPECTED:.3f}")
sys.exit(measured > 249)  # nearer to deepspeed 0.19.6, 289
