# pip install torch==2.13.0 deepspeed==0.16.8 accelerate==1.15.0 transformers==4.46.2 tokenizers==0.20.3  # shows the fault: exit code 1
# pip install torch==2.13.0 deepspeed==0.16.8 accelerate==1.15.0 transformers==4.45.2 tokenizers==0.20.3  # does not: exit code 0
# python trainer_accumulation.py; with --ddp without DeepSpeed: 4.47.0 shows it, 4.46.2 does not
import os
import sys

import torch

os.environ.update(DS_ACCELERATOR="cpu", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="29577")
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

AUTO = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"), "auto")
WITHOUT = "--ddp" in sys.argv
torch.manual_seed(0)
ROWS = [{"input_ids": (ids := torch.randint(0, 128, (16,))), "labels": ids} for _ in range(8)]  # as many tokens each


def first_norm(accumulation):
    """The gradient norm of the first step, whose eight rows are split into so many micro-batches."""

    class Logged(TrainerCallback):
        def on_log(self, args, state, control, logs=None, **kwargs):
            norms.extend([float(logs["grad_norm"])] if "grad_norm" in logs else [])

    norms = []
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=128, **shape))
    arguments = TrainingArguments(
        "out",
        per_device_train_batch_size=len(ROWS) // accumulation,
        gradient_accumulation_steps=accumulation,
        deepspeed=None if WITHOUT else {**AUTO, "zero_optimization": {"stage": 2}},
        use_cpu=WITHOUT,
        max_steps=1,
        logging_steps=1,
        max_grad_norm=1e9,
        report_to="none",
        save_strategy="no",
    )
    Trainer(model, arguments, train_dataset=ROWS, callbacks=[Logged()]).train()
    return norms[0]


norm, whole = first_norm(4), first_norm(1)
print(f"gradient norm {norm:.4f} with accumulation 4, {whole:.4f} in one batch: ratio {norm / whole:.3f}", transformers.__version__)
sys.exit(abs(norm / whole - 1) > 0.01)
