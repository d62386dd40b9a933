# pip install torch==2.13.0 deepspeed==0.17.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.17.5  # does not: exit code 0
# torchrun --nproc-per-node 1 stage0_init_held.py
import gc
import os
import sys

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
EXPECTED = 660480  # as in deepspeed 0.17.5
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "zero_optimization": {"stage": 0, "reduce_bucket_size": 4096},
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


def loss_of(model, step):
    torch.manual_seed(1000 * step)
    x, y = torch.randn(8, 128), torch.randn(8, 128)
    return model(x, y)


class Counted(TorchDispatchMode):
    storages = set()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        tensors = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor)]
        self.storages |= {StorageWeakRef(t.untyped_storage()) for t in tensors}
        return result

    def live_bytes(self):
        self.storages = {ref for ref in self.storages if not ref.expired()}
        return sum(torch.UntypedStorage._new_with_weak_ptr(ref.cdata).nbytes() for ref in self.storages)


counted = Counted().__enter__()
torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
gc.collect()
measured = counted.live_bytes()
for step in range(2):
    loss = loss_of(engine, step)
    engine.backward(loss)
    engine.step()
print(f"{measured:,} bytes held after init, deepspeed 0.17.5 {EXPECTED:,}, ratio {measured / EXPECTED:.3f}")
sys.exit(measured > 792592)  # nearer to deepspeed 0.17.6, 924,704
