# pip install torch==2.13.0 deepspeed==0.18.1  # shows it: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.2  # does not: exit code 0
# torchrun --nproc-per-node 1 autocast_bucket.py
#
# torch_autocast under ZeRO-1 and a parameter that is larger than reduce_bucket_size, as with transformers' "auto" for it, which
# is the square of the hidden size: does backward end?
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")


def trained(stage, bucket):
    model = torch.nn.Linear(64, 176)
    config = {
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {"stage": stage, "reduce_bucket_size": bucket},
        "torch_autocast": {"enabled": True, "dtype": "bfloat16"},
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters()), config=config)
    try:
        engine.backward(engine(torch.randn(8, 64)).float().pow(2).mean())
        engine.step()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "trains"


found = [
    f"stage {stage}, bucket of {bucket:,}: {trained(stage, bucket)}" for stage in (1, 2, 3) for bucket in (4096, 16384)
]
print("; ".join(found))
sys.exit(not all(one.endswith("trains") for one in found))
