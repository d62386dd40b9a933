# pip install torch==2.13.0 deepspeed==0.19.2 transformers==4.57.6 accelerate==1.15.0 peft==0.21.2  # shows it: exit code 1
# pip install torch==2.13.0 deepspeed==0.19.1 transformers==4.57.6 accelerate==1.15.0 peft==0.21.2  # does not: exit code 0
# torchrun --nproc-per-node 1 saved_adapters.py
#
# LoRA by transformers' Trainer under DeepSpeed: in which dtype are the adapters that it saves?
import os
import sys
import tempfile

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
deepspeed.init_distributed(dist_backend="gloo")
SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256}
SCHEDULE = {"type": "WarmupLR", "params": {"warmup_max_lr": "auto"}}  # one of torch's ends by peft's empty group


def saved(stage=3, dtype=torch.bfloat16, zero_init=True, **peft):
    """The dtype of the adapters that a job saves after four steps, and the size of their file."""
    settings = {
        "bf16": {"enabled": "auto"},
        "zero_optimization": {"stage": stage, "stage3_gather_16bit_weights_on_model_save": True},
        "train_micro_batch_size_per_gpu": 1,
        "scheduler": SCHEDULE,
    }
    rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 4
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=4,
            per_device_train_batch_size=1,
            bf16=dtype == torch.bfloat16,
            report_to="none",
            use_cpu=True,
            save_strategy="no",
            deepspeed=settings,
        )
        if zero_init:  # in stage 3, as by from_pretrained
            model = AutoModelForCausalLM.from_config(LlamaConfig(**SIZES), dtype=dtype)
        else:
            model = LlamaForCausalLM(LlamaConfig(**SIZES)).to(dtype)
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=8), **peft)
        trainer = Trainer(model=model, args=arguments, train_dataset=rows)
        trainer.train()
        trainer.save_model()
        file = os.path.join(folder, "adapter_model.safetensors")
        dtypes = {str(tensor.dtype).removeprefix("torch.") for tensor in load_file(file).values()}
        return " and ".join(sorted(dtypes)), os.path.getsize(file)


jobs = {
    "ZeRO-3": {},
    "ZeRO-3, autocast_adapter_dtype=False": {"autocast_adapter_dtype": False},
    "ZeRO-3, no zero.Init": {"zero_init": False},
    "ZeRO-3, all in fp32": {"dtype": torch.float32},
    "ZeRO-2": {"stage": 2},
}
found = {name: saved(**job) for name, job in jobs.items()}
print("adapters are saved in: " + "; ".join(f"{name}: {dtype}, {size:,} bytes" for name, (dtype, size) in found.items()))
sys.exit(found["ZeRO-3"][0] != "bfloat16")
