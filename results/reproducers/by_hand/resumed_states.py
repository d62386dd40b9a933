# pip install torch==2.13.0 deepspeed==0.19.8 transformers==4.45.2 accelerate==1.0.1  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.8 transformers==5.24.0 accelerate==1.15.0  # does not: exit code 0
# python resumed_states.py
import os
import pickle
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", LOCAL_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29577")
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)
ROWS = [{"input_ids": (ids := torch.randint(0, 128, (16,))), "labels": ids} for _ in range(8)]
SHAPE = LlamaConfig(vocab_size=128, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4)


def train(steps, resume):
    arguments = TrainingArguments("out", per_device_train_batch_size=2, max_steps=steps, save_steps=1, report_to="none", use_cpu=True)
    Trainer(LlamaForCausalLM(SHAPE), arguments, train_dataset=ROWS).train(resume_from_checkpoint=resume)


train(1, False)
try:
    train(2, True)
except pickle.UnpicklingError as error:
    print(f"transformers {transformers.__version__}: UnpicklingError: {str(error).splitlines()[0]}")
    sys.exit(1)
print(f"transformers {transformers.__version__}: resumes after step 1")
