# pip install torch==2.13.0 deepspeed==0.17.3  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.15.0  # does not: exit code 0
# torchrun --nproc-per-node 1 forward_calls.py
import cProfile
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
model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4)))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    with cProfile.Profile() as profile:
        loss = engine(torch.randn(8, 128)).pow(2).sum()
    measured = sum(entry.callcount for entry in profile.getstats())
    engine.backward(loss)
    engine.step()
print(f"{measured:,} Python and C calls in forward, deepspeed 0.15.0 3,728, ratio {measured / 3728:.3f}")
sys.exit(measured > 5319)  # nearer to deepspeed 0.17.3, 6,910
