# pip install torch==2.5.1 accelerate==1.15.0  # shows the fault: exit code 1
# pip install torch==2.6.0 accelerate==1.15.0  # does not: exit code 0
# python accelerate_fsdp2_torch.py
#
# accelerate's FSDP2 (`fsdp_version: 2`), on one CPU process: does it start with the torch that is installed?
import os
import sys

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29512")
os.environ.update(ACCELERATE_USE_CPU="true", ACCELERATE_USE_FSDP="true", FSDP_VERSION="2")

from accelerate import Accelerator, FullyShardedDataParallelPlugin

try:
    Accelerator(cpu=True, fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2))
except (ImportError, ValueError) as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(1)
print("starts")
