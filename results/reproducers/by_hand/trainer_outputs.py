# pip install torch==2.13.0 deepspeed==0.18.9 transformers==4.45.2 accelerate==1.15.0  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.16.8 transformers==4.45.2 accelerate==1.15.0  # does not: exit code 0
# torchrun --nproc-per-node 1 trainer_outputs.py
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

MICRO_BATCHES = 4
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
ROW = {"input_ids": torch.arange(16), "labels": torch.arange(16)}  # the same in every micro-batch, so that order does not matter
AUTO = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto")
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=128, **SHAPE))
model(**{name: values[None] for name, values in ROW.items()}).loss.backward()
expected = float(torch.cat([one.grad.flatten() for one in model.parameters()]).norm())
model.zero_grad()
arguments = TrainingArguments(
    "out",
    per_device_train_batch_size=1,
    gradient_accumulation_steps=MICRO_BATCHES,
    max_steps=1,
    max_grad_norm=1e9,
    deepspeed={**AUTO, "zero_optimization": {"stage": 2}},
    logging_steps=1,
    report_to="none",
    save_strategy="no",
)
trainer = Trainer(model, arguments, train_dataset=[ROW] * MICRO_BATCHES)
trainer.train()
(norm,) = (float(one["grad_norm"]) for one in trainer.state.log_history if "grad_norm" in one)
print(f"gradient norm {norm:.4f}, by plain PyTorch {expected:.4f}, ratio {norm / expected:.3f}")
sys.exit(norm / expected < 0.5)  # by transformers alone it is 15 of 16: it counts the first label, which nothing predicts
