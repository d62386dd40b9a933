# pip install torch==2.13.0 deepspeed==0.17.6  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.2  # does not: exit code 0
# torchrun --nproc-per-node 2 universal_again.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here


def model_files(load_universal):
    """How many ranks' model states a checkpoint has. `ds_to_universal` takes their number for that of the ranks."""
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": 3},
        "checkpoint": {"load_universal": load_universal},  # as a job has that goes on from a universal checkpoint
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters()), config=config)
    folder = f"saved_{load_universal}"
    engine.save_checkpoint(folder, tag="saved")
    torch.distributed.barrier()
    return sum(name.endswith("_model_states.pt") for name in os.listdir(f"{folder}/saved"))


ordinary, resumed = model_files(False), model_files(True)
if os.environ["RANK"] == "0":
    print(f"files of model states by 2 ranks: {ordinary}, with load_universal {resumed}")
sys.exit(resumed != 2)
