# pip install torch==2.13.0 deepspeed==0.19.7  # refuses it: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.6  # takes it: exit code 0
# python mics.py
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29580")
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "mics_shard_size": int((sys.argv[1:] or ["1"])[0])}}
deepspeed.init_distributed(dist_backend="gloo")
try:
    config = deepspeed.DeepSpeedConfig(CONFIG)
except deepspeed.runtime.config.DeepSpeedConfigError as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(1)
print(f"takes groups of {config.mics_shard_size}")
