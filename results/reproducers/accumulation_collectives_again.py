# pip install torch==2.13.0 deepspeed==0.19.3  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.2  # does not: exit code 0
# torchrun --nproc-per-node 2 accumulation_collectives_again.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 2, "gradient_clipping": 0.0,
    "zero_optimization": {
        "stage": 3, "reduce_bucket_size": 4096, "stage3_param_persistence_threshold": 0,
        "stage3_max_live_parameters": 30000, "stage3_max_reuse_distance": 30000,
    },
}


class Counted(torch.utils._python_dispatch.TorchDispatchMode):
    moved_bytes = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if operator.namespace == "c10d":
            self.moved_bytes += sum(t.nbytes for t in torch.utils._pytree.tree_leaves(args) if isinstance(t, torch.Tensor))
        return operator(*args, **(kwargs or {}))


counted = Counted().__enter__()
model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4)))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    measured = 0
    for micro_batch in range(2):
        loss = engine(torch.randn(8, 128)).pow(2).sum()
        before = counted.moved_bytes
        engine.backward(loss)
        measured += counted.moved_bytes - before
        engine.step()
if engine.global_rank == 0:
    print(f"{measured:,} bytes in collectives in backward, deepspeed 0.19.2 1,090,560, ratio {measured / 1090560:.3f}")
sys.exit(measured > 1140480)  # nearer to deepspeed 0.19.3, 1,190,400
