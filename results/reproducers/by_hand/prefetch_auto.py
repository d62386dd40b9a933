# pip install torch==2.13.0 deepspeed==0.19.8 accelerate==1.15.0 transformers==4.44.2  # writes a fraction: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8 accelerate==1.15.0 transformers==4.45.2  # writes a whole number: exit code 0
# python prefetch_auto.py
#
# What transformers writes for "auto" as ZeRO-3's `stage3_prefetch_bucket_size`, for a model with a hidden size of 3,584.
import os
import sys
from types import SimpleNamespace

os.environ["DS_ACCELERATOR"] = "cpu"
import transformers
from transformers import TrainingArguments
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

config = HfTrainerDeepSpeedConfig({
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"},
})
arguments = TrainingArguments("out", report_to=[])
config.trainer_config_process(arguments)
config.trainer_config_finalize(arguments, SimpleNamespace(config=SimpleNamespace(hidden_size=3584)), 10)
written = config.get_value("zero_optimization.stage3_prefetch_bucket_size")
print(f"transformers {transformers.__version__}: {written!r}")
sys.exit(not isinstance(written, int))
