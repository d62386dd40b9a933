# pip install torch==2.13.0 deepspeed==0.16.0  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.15.4  # does not: exit code 0
# torchrun --nproc-per-node 2 accumulation_collectives.py
import os
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MICRO_BATCHES = 2
EXPECTED = 1090560  # as in deepspeed 0.15.4
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 2,
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": 4096,
        "stage3_param_persistence_threshold": 0,
        "stage3_max_live_parameters": 30000,
        "stage3_max_reuse_distance": 30000,
    },
    "gradient_clipping": 0.0,
}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(128, 128) for _ in range(4))

    def forward(self, x, y):
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return (x - y).pow(2).sum()


def loss_of(model, step, rank, micro_batch):
    torch.manual_seed(1000 * step + 100 * rank + micro_batch)
    x, y = torch.randn(8, 128), torch.randn(8, 128)
    return model(x, y)


class Counted(TorchDispatchMode):
    moved_bytes = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.namespace == "c10d":
            self.moved_bytes += sum(t.nbytes for t in tree_flatten(args)[0] if isinstance(t, torch.Tensor))
        return operator(*args, **(kwargs or {}))


counted = Counted().__enter__()
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
for step in range(2):
    measured = 0
    for micro_batch in range(MICRO_BATCHES):
        loss = loss_of(engine, step, RANK, micro_batch)
        before = counted.moved_bytes
        engine.backward(loss)
        measured += counted.moved_bytes - before
        engine.step()
if RANK == 0:
    print(f"{measured:,} bytes in collectives in backward, deepspeed 0.15.4 {EXPECTED:,}, ratio {measured / EXPECTED:.3f}")
sys.exit(measured > 1140480)  # nearer to deepspeed 0.16.0, 1,190,400
