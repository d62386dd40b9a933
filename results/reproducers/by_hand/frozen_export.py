# pip install torch==2.13.0 deepspeed==0.19.8  # shows the fault: exit code 1; so do 0.15.4, with torch 2.5.1, and 0.16.4
# torchrun --nproc-per-node 1 frozen_export.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here


def missing(stage):
    """Parameters that a checkpoint's fp32 weights lack."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
    model[0].requires_grad_(False)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    }
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(trained, lr=0.1), config=config)
    engine.save_checkpoint(f"checkpoint{stage}", tag="saved")
    exported = get_fp32_state_dict_from_zero_checkpoint(f"checkpoint{stage}", tag="saved")
    return [name for name, _ in model.named_parameters() if name not in exported]


found = {stage: missing(stage) for stage in (1, 2, 3)}
print("missing in zero_to_fp32's weights:", *(f"stage {stage}: {', '.join(names) or 'none'};" for stage, names in found.items()))
sys.exit(any(map(len, found.values())))
