# pip install torch==2.13.0 deepspeed==0.16.4 transformers==4.57.6 accelerate==1.15.0 peft==0.21.2  # ends: exit code 1
# torchrun --nproc-per-node 1 trainer_empty_group.py
#
# LoRA by transformers' Trainer under DeepSpeed with a schedule of torch's, by releases of transformers: does it train?
import os
import sys
import tempfile

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256}


def trained(stage):
    """How a job of two steps ends."""
    rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 2
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=2,
            per_device_train_batch_size=1,
            bf16=True,
            report_to="none",
            use_cpu=True,
            save_strategy="no",
            deepspeed={
                "bf16": {"enabled": "auto"},
                "zero_optimization": {"stage": stage},
                "train_micro_batch_size_per_gpu": 1,
            },
        )
        model = get_peft_model(LlamaForCausalLM(LlamaConfig(**SIZES)), LoraConfig(task_type="CAUSAL_LM", r=8))
        try:
            Trainer(model=model, args=arguments, train_dataset=rows).train()
        except ValueError as error:
            return f"ValueError: {error}"
        return "trains"


found = {f"stage {stage}": trained(stage) for stage in (1, 2, 3)}
versions = f"torch {torch.__version__.partition('+')[0]}, transformers {transformers.__version__}"
print(f"{versions}: " + "; ".join(f"{stage} {how}" for stage, how in found.items()))
sys.exit(any(how != "trains" for how in found.values()))
