# pip install torch==2.13.0 deepspeed==0.19.1 transformers==4.57.6 peft==0.21.2 accelerate==1.15.0 trl==0.24.0 datasets==4.8.5  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.2 transformers==4.57.6 peft==0.21.2 accelerate==1.15.0 trl==0.24.0 datasets==4.8.5  # does not: exit code 0
# torchrun --nproc-per-node 1 grpo_adapters.py
import os
import sys

import torch

os.environ.update(
    DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"]
)
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer

WORDS = {"<pad>": 0, "<eos>": 1, **{f"w{number}": number for number in range(2, 128)}}
tokens = Tokenizer(models.WordLevel(WORDS, unk_token="<pad>"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="<eos>", model_input_names=["input_ids", "attention_mask"])
AUTO = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto")
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SCHEDULE = {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": "auto", "warmup_num_steps": "auto"}}  # torch's schedule ends with adapters: DSR-2026-0015
arguments = GRPOConfig(
    "out",
    per_device_train_batch_size=2,
    num_generations=2,
    max_completion_length=4,
    deepspeed={**AUTO, "zero_optimization": {"stage": 3}, "scheduler": SCHEDULE},
    max_steps=3,
    warmup_steps=1,
    bf16=False,
    report_to="none",
    save_strategy="no",
)
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=128, eos_token_id=1, pad_token_id=0, **SHAPE))
trainer = GRPOTrainer(
    model,
    reward_funcs=lambda completions, **_: [float(len(one)) for one in completions],
    args=arguments,
    train_dataset=Dataset.from_dict({"prompt": ["w5 w6 w7 w8"] * 8}),
    processing_class=tokenizer,
    peft_config=LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj", "v_proj"]),
)
try:
    trainer.train()
except IndexError as error:
    print(f"IndexError: {error}, after {trainer.state.global_step} steps")
    sys.exit(1)
print(f"trains {trainer.state.global_step} steps")
