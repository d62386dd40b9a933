# pip install torch==2.13.0 deepspeed==0.18.1  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.2  # does not: exit code 0
# torchrun --nproc-per-node 1 autocast_bucket.py
import os

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "torch_autocast": {"enabled": True, "dtype": "bfloat16"},
    "gradient_clipping": 0.0, "zero_optimization": {"stage": 1, "reduce_bucket_size": 4096},
}


class Model(torch.nn.Sequential):
    def forward(self, x, y):
        x = x.to(self[0].weight.dtype)
        for layer in self:
            x = torch.tanh(layer(x))
        return (x.float() - y).pow(2).sum()


model = Model(*(torch.nn.Linear(128, 128) for _ in range(4)))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    engine.backward(engine(torch.randn(8, 128), torch.randn(8, 128)))
    engine.step()
print("trains 2 steps")
