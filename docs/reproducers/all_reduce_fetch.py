# pip install torch==2.13.0 deepspeed==0.16.3  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.16.2  # does not: exit code 0
# torchrun --nproc-per-node 2 all_reduce_fetch.py
import os

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "zero_optimization": {
        "stage": 3,
        "reduce_bucket_size": 4096,
        "stage3_use_all_reduce_for_fetch_params": True,
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


def loss_of(model, step, rank):
    torch.manual_seed(1000 * step + 100 * rank)
    x, y = torch.randn(8, 128), torch.randn(8, 128)
    return model(x, y)


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
for step in range(2):
    loss = loss_of(engine, step, RANK)
    engine.backward(loss)
    engine.step()
if RANK == 0:
    print("trains 2 steps")
