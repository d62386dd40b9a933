# pip install torch==2.13.0 deepspeed==0.15.4  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.15.3  # does not: exit code 0
# torchrun --nproc-per-node 2 evaluation_held.py
import gc
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


class Counted(torch.utils._python_dispatch.TorchDispatchMode):
    storages = set()

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        tensors = [t for t in torch.utils._pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
        self.storages |= {torch.multiprocessing.reductions.StorageWeakRef(t.untyped_storage()) for t in tensors}
        return result

    def live_bytes(self):
        self.storages = {ref for ref in self.storages if not ref.expired()}
        return sum(torch.UntypedStorage._new_with_weak_ptr(ref.cdata).nbytes() for ref in self.storages)


counted = Counted().__enter__()
model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4)))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    engine.backward(engine(torch.randn(8, 128)).pow(2).sum())
    engine.step()
    engine.eval()
    with torch.no_grad():
        engine(torch.randn(8, 128)).pow(2).sum()
    engine.train()
    gc.collect()
    measured = counted.live_bytes()
if engine.global_rank == 0:
    print(f"{measured:,} bytes held after step, deepspeed 0.15.3 676,877, ratio {measured / 676877:.3f}")
sys.exit(measured > 742669)  # nearer to deepspeed 0.15.4, 808,461
