# pip install torch==2.13.0 deepspeed==0.16.0  # has no_sync, which ends under ZeRO-3: exit code 1
# pip install torch==2.13.0 deepspeed==0.15.4  # has none, so accelerate takes a context that does nothing: exit code 0
import os
import sys

import torch

os.environ.update(
    DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1"
)
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 4,
    "zero_optimization": {"stage": 3},
    "zero_allow_untested_optimizer": True,
}

model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
if not hasattr(engine, "no_sync"):
    print(f"deepspeed {deepspeed.__version__}: an engine has no `no_sync`")
    sys.exit(0)
try:
    with engine.no_sync():
        engine.backward(engine(torch.randn(4, 32)).pow(2).sum())
except AssertionError as error:
    print(f"deepspeed {deepspeed.__version__}: AssertionError: {error}")
    sys.exit(1)
print(f"deepspeed {deepspeed.__version__}: no_sync works")
