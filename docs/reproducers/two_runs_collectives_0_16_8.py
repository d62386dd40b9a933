# pip install torch==2.13.0 deepspeed==0.16.8  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.16.7  # does not: exit code 0
# torchrun --nproc-per-node 2 two_runs_collectives_0_16_8.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "gradient_clipping": 0.0,
    "zero_optimization": {
        "stage": 3, "reduce_bucket_size": 4096, "stage3_param_persistence_threshold": 0,
        "stage3_max_live_parameters": 30000, "stage3_max_reuse_distance": 30000,
    },
}


class Model(torch.nn.Sequential):
    def forward(self, x, y):
        for layer in self:
            x = torch.tanh(layer(x))
        return (x - y).pow(2).sum()


def loss_of(model):
    x, y = torch.randn(8, 128), torch.randn(8, 128)
    return (model(x, y) + model(-x, y)) / 2


class Counted(torch.utils._python_dispatch.TorchDispatchMode):
    collectives = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.collectives += operator.namespace == "c10d"
        return operator(*args, **(kwargs or {}))


counted = Counted().__enter__()
model = Model(*(torch.nn.Linear(128, 128) for _ in range(4)))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    loss = loss_of(engine)
    before = counted.collectives
    engine.backward(loss)
    measured = counted.collectives - before
    engine.step()
if engine.global_rank == 0:
    print(f"{measured:,} collectives in backward, deepspeed 0.16.7 12, ratio {measured / 12:.3f}")
sys.exit(measured > 13)  # nearer to deepspeed 0.16.8, 15
