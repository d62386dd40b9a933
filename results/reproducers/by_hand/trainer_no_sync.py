# pip install torch==2.13.0 deepspeed==0.19.8 accelerate==1.8.1 transformers==4.46.3  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8 accelerate==1.15.0 transformers==5.24.0  # does not: exit code 0
# torchrun --nproc-per-node 2 trainer_no_sync.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

AUTO = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto")
torch.manual_seed(0)
ROWS = [{"input_ids": (ids := torch.randint(0, 128, (16,))), "labels": ids} for _ in range(16)]
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=2,
    gradient_accumulation_steps=4,
    deepspeed={**AUTO, "zero_optimization": {"stage": 3}},
    max_steps=2,
    report_to="none",
    save_strategy="no",
)
model = LlamaForCausalLM(LlamaConfig(vocab_size=128, **SHAPE))
try:
    Trainer(model, arguments, train_dataset=ROWS).train()
except AssertionError as error:
    print(f"transformers {transformers.__version__}: AssertionError: {error}")
    sys.exit(1)
print(f"transformers {transformers.__version__}: trains 2 steps with accumulation 4")
