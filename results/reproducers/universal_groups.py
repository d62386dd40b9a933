# pip install torch==2.13.0 deepspeed==0.16.2  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.4  # does not: exit code 0
# torchrun --nproc-per-node 1 universal_groups.py
import argparse
import os

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


def groups_of(model):
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    weights = [p for name, p in trained if name.endswith("weight")]
    others = [p for name, p in trained if not name.endswith("weight")]
    groups = [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


optimizer = torch.optim.AdamW(groups_of(model), lr=0.001)
engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
for step in range(2):
    engine.backward(engine(torch.randn(8, 128)).pow(2).sum())
    engine.step()
    if step == 0:
        engine.save_checkpoint("checkpoint", tag="saved")
        torch.distributed.barrier()
        from deepspeed.checkpoint import ds_to_universal
        folders = {"input_folder": "checkpoint/saved", "output_folder": "checkpoint/universal"}
        workers = {"num_extract_workers": 1, "num_merge_workers": 1, "keep_temp_folder": False}
        ds_to_universal.main(argparse.Namespace(**folders, **workers, strict=True, inject_missing_state=True))
        torch.distributed.barrier()
        CONFIG["checkpoint"] = {"load_universal": True}  # of the job that goes on
        model = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(4)))
        optimizer = torch.optim.AdamW(groups_of(model), lr=0.001)
        engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
        engine.load_checkpoint("checkpoint", tag="universal")
print("trains 2 steps")
