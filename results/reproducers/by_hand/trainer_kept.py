# pip install torch==2.13.0 deepspeed==0.18.9 transformers==4.57.6 accelerate==1.15.0  # shows it: exit code 1
# torchrun --nproc-per-node 1 trainer_kept.py
#
# A Trainer that trained under ZeRO-2 is let go of, and garbage is collected: is its model gone?
import gc
import os
import sys
import tempfile
import weakref

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_SIZE=os.environ["WORLD_SIZE"])
import deepspeed
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # takes 40 s to compile, and is not used here
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 256,
}
DEEPSPEED = {
    "zero_optimization": {"stage": 2},
    "train_micro_batch_size_per_gpu": 1,
    "zero_force_ds_cpu_optimizer": False,
}


def trained(settings):
    """A weak reference to the model of a Trainer that nothing here refers to any more, after one step."""
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    rows = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 2
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=1,
            per_device_train_batch_size=1,
            report_to="none",
            use_cpu=True,
            save_strategy="no",
            deepspeed=settings,
        )
        Trainer(model=model, args=arguments, train_dataset=rows).train()
    return weakref.ref(model)


kept = {}
for name, settings in (("without DeepSpeed", None), ("under ZeRO-2", DEEPSPEED)):
    if name == "under ZeRO-2" and not torch.distributed.is_initialized():
        deepspeed.init_distributed(dist_backend="gloo")
    model = trained(settings)
    gc.collect()
    kept[name] = model() is not None
    print(f"{name}: the model is {'kept' if kept[name] else 'gone'}")
sys.exit(kept["under ZeRO-2"] and not kept["without DeepSpeed"])
