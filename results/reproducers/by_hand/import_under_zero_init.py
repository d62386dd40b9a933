# pip install torch==2.13.0 deepspeed==0.19.8  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.7  # does not: exit code 0
# torchrun --nproc-per-node 1 import_under_zero_init.py
import importlib
import os
import sys

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
before = "torch._dynamo" in sys.modules
deepspeed.init_distributed(dist_backend="gloo")
with deepspeed.zero.Init(config_dict_or_path={"train_batch_size": 1, "zero_optimization": {"stage": 3}}):
    try:
        importlib.import_module("torch._dynamo")  # as torch.compile does, and flex attention
        ends = "imports"
    except Exception as error:
        ends = f"{type(error).__name__}: {str(error)[:60]}"
print(f"torch._dynamo {'was imported with deepspeed' if before else 'was not imported yet'}; under zero.Init: {ends}")
sys.exit(ends != "imports")
