# pip install torch==2.13.0 deepspeed==0.16.4 transformers==5.24.0  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8 transformers==5.24.0  # does not: exit code 0
# torchrun --nproc-per-node 1 second_model.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
from transformers import AutoModelForSequenceClassification, Qwen2Config
from transformers.integrations import HfDeepSpeedConfig

SHAPE = Qwen2Config(
    hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=96, pad_token_id=0
)
CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True, "zero_optimization": {"stage": 3}}

deepspeed.init_distributed(dist_backend="gloo")
torch.manual_seed(0)
AutoModelForSequenceClassification.from_config(SHAPE).save_pretrained("saved")
for_transformers = HfDeepSpeedConfig(CONFIG)  # as Trainer makes it
counts = []
try:
    for _ in range(3):
        model = AutoModelForSequenceClassification.from_pretrained("saved")
        counts.append(sum(getattr(one, "ds_numel", one.numel()) for one in model.parameters()))
        deepspeed.initialize(model=model, config=CONFIG, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
except Exception as error:
    print(f"parameters of each model {counts}, then {type(error).__name__}: {error}")
    sys.exit(1)
print(f"parameters of each model {counts}")
sys.exit(len(set(counts)) > 1)
