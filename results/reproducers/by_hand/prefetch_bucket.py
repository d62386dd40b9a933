# pip install torch==2.13.0 deepspeed==0.15.0  # refuses it: exit code 1
# pip install torch==2.13.0 deepspeed==0.14.4  # takes it: exit code 0
# python prefetch_bucket.py
#
# ZeRO-3's configuration with the `stage3_prefetch_bucket_size` that transformers up to 4.44.2 writes for "auto": 0.9 times the square of the
# hidden size, 3,584 here.
import os
import sys

os.environ["DS_ACCELERATOR"] = "cpu"
import deepspeed
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from pydantic import ValidationError

try:
    config = DeepSpeedZeroConfig(stage=3, stage3_prefetch_bucket_size=0.9 * 3584 * 3584)
except ValidationError as error:
    (first,) = error.errors()
    print(f"deepspeed {deepspeed.__version__}: ValidationError: {first['loc'][0]}: {first['msg']}")
    sys.exit(1)
print(f"deepspeed {deepspeed.__version__}: takes it as {config.prefetch_bucket_size:,}")
