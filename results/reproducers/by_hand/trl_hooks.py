# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.15.0 peft==0.21.2 trl==1.16.0 deepspeed==0.16.3  # shows it: exit code 1
# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.15.0 peft==0.21.2 trl==1.16.0 deepspeed==0.16.4  # does not: exit code 0
# python trl_hooks.py
#
# What TRL's trainers do around each generation under ZeRO-3, by TRL's own functions: take the engine's hooks off, generate, put them back.
import os
import sys

import torch

os.environ.update(
    DS_ACCELERATOR="cpu", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1"
)
import deepspeed
import trl
from trl.models.utils import add_hooks, remove_hooks

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 3},
    "zero_allow_untested_optimizer": True,
}

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Linear(32, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
try:
    for _ in range(2):
        with torch.no_grad(), deepspeed.zero.GatheredParameters(list(engine.parameters())):
            remove_hooks(engine)
            engine.module(torch.randn(4, 32))
            add_hooks(engine)
        engine.backward(engine(torch.randn(4, 32)).pow(2).sum())
        engine.step()
except AttributeError as error:
    print(f"deepspeed {deepspeed.__version__}, trl {trl.__version__}: AttributeError: {error}")
    sys.exit(1)
print(f"deepspeed {deepspeed.__version__}, trl {trl.__version__}: generates and trains twice")
