# pip install torch==2.13.0 deepspeed==0.19.8 transformers==5.1.0 accelerate==1.15.0  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8 transformers==5.2.0 accelerate==1.15.0  # does not: exit code 0
# torchrun --nproc-per-node 1 trainer_engine.py 3; or 2
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
AUTO = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto")
LlamaForCausalLM(LlamaConfig(vocab_size=128, **SHAPE)).save_pretrained("saved")
arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=1,
    max_steps=1,
    deepspeed={**AUTO, "zero_optimization": {"stage": int(sys.argv[1])}},
    report_to="none",
    save_strategy="no",
)
model = AutoModelForCausalLM.from_pretrained("saved")
row = {"input_ids": torch.arange(16), "labels": torch.arange(16)}
try:
    Trainer(model, arguments, train_dataset=[row] * 4).train()
except (AttributeError, RuntimeError) as error:
    print(f"transformers {transformers.__version__}: {type(error).__name__}: {error}")
    sys.exit(1)
print(f"transformers {transformers.__version__}: trains")
