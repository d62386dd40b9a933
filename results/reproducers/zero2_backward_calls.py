# pip install torch==2.13.0 deepspeed==0.19.8  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.15.0  # does not: exit code 0
# torchrun --nproc-per-node 1 zero2_backward_calls.py
import cProfile
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4, "gradient_clipping": 0.0,
    "zero_optimization": {"stage": 1, "reduce_bucket_size": 4096},
}
model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4)))
engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=0.001), config=CONFIG)
for step in range(2):
    measured = 0
    for micro_batch in range(4):
        loss = engine(torch.randn(8, 128)).pow(2).sum()
        with cProfile.Profile() as profile:
            engine.backward(loss)
        measured += sum(entry.callcount for entry in profile.getstats())
        engine.step()
print(f"{measured:,} Python and C calls in backward, deepspeed 0.15.0 1,711, ratio {measured / 1711:.3f}")
sys.exit(measured > 2758)  # nearer to deepspeed 0.19.8, 3,805
