# pip install torch==2.13.0 deepspeed==0.18.9 transformers==5.24.0 accelerate==1.15.0 peft==0.21.2 datasets==5.2.0 trl==1.15.0 triton  # shows it: exit code 1
# pip install torch==2.13.0 deepspeed==0.18.9 transformers==5.24.0 accelerate==1.15.0 peft==0.21.2 datasets==5.2.0 trl==1.14.2 triton  # does not: exit code 0
# TRITON_INTERPRET=1 torchrun --nproc-per-node 2 grpo_lm_head.py
#
# GRPO with LoRA under ZeRO-3: how much of the output layer's weight is there when the step begins?
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")
import trl
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback

WORDS = {"<pad>": 0, "<eos>": 1, **{f"w{number}": number for number in range(2, 128)}}
SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4}
tokens = Tokenizer(models.WordLevel(WORDS, unk_token="<pad>"))
tokens.pre_tokenizer = pre_tokenizers.Whitespace()
there = []


class WatchSteps(TrainerCallback):
    def on_train_begin(self, args, state, control, model=None, **_):
        weight = next(one for name, one in trainer.deepspeed.module.named_parameters() if name.endswith("lm_head.weight"))
        step = trainer.deepspeed.step
        trainer.deepspeed.step = lambda *given, **named: (there.append(weight.numel()), step(*given, **named))


arguments = trl.GRPOConfig(
    "out",
    use_cpu=True,
    bf16=False,
    per_device_train_batch_size=2,
    num_generations=2,
    max_completion_length=4,
    max_steps=2,
    report_to="none",
    save_strategy="no",
    deepspeed={"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0}},
)
trainer = trl.GRPOTrainer(
    Qwen2ForCausalLM(Qwen2Config(vocab_size=128, eos_token_id=1, pad_token_id=0, **SHAPE)),
    reward_funcs=lambda completions, **_: [float(len(one)) for one in completions],
    args=arguments,
    train_dataset=Dataset.from_dict({"prompt": ["w5 w6 w7 w8"] * 16}),
    processing_class=PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="<eos>", model_input_names=["input_ids", "attention_mask"]),
    peft_config=LoraConfig(target_modules=["q_proj"]),
    callbacks=[WatchSteps()],
)
trainer.train()
if torch.distributed.get_rank() == 0:
    print(f"trl {trl.__version__}: of the {128 * 32:,} numbers of the output layer's weight, there when a step begins: {there}")
sys.exit(any(there))
