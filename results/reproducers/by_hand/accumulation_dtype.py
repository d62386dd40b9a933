# pip install torch==2.13.0 deepspeed==0.19.7  # leaves the configured dtype out: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8  # obeys it: exit code 0
# torchrun --nproc-per-node 1 accumulation_dtype.py
#
# ZeRO-2 in bf16 with "grad_accum_dtype": "fp32": of which dtype are the gradients that are held after backward?
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "gradient_accumulation_steps": 2,
    "bf16": {"enabled": True},
    "data_types": {"grad_accum_dtype": "fp32"},
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
}

torch.manual_seed(0)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
for _ in range(2):
    loss = engine(torch.randn(8, 64).bfloat16()).float().pow(2).sum()
    engine.backward(loss)
    held = [one for group in engine.optimizer.averaged_gradients.values() for one in group or () if one is not None]
    engine.step()
dtypes = {one.dtype for one in held}
print(f"deepspeed {deepspeed.__version__}: gradients held after backward are in {', '.join(sorted(map(str, dtypes)))}")
sys.exit(dtypes != {torch.float32})
