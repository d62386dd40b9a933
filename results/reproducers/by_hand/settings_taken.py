# pip install torch==2.13.0 deepspeed==0.17.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8  # does not: exit code 0
# torchrun --nproc-per-node 1 settings_taken.py
import copy
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {
    "train_batch_size": 1,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True, "adam_w_mode": True}},
    "zero_optimization": {"stage": 1},
}
given = copy.deepcopy(CONFIG)
deepspeed.init_distributed(dist_backend="gloo")
deepspeed.initialize(model=torch.nn.Linear(4, 4), config=given)
taken = sorted(set(CONFIG["optimizer"]["params"]) - set(given["optimizer"]["params"]))
print(f"taken out of the caller's dictionary: {', '.join(taken) or 'nothing'}")
sys.exit(bool(taken))
