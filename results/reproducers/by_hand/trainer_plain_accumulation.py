# pip install torch==2.13.0 accelerate==1.15.0 transformers==5.4.0  # shows the fault: exit code 1
# pip install torch==2.13.0 accelerate==1.15.0 transformers==5.6.0  # does not: exit code 0
# python trainer_plain_accumulation.py
import sys
import tempfile

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


def gradient_norm(rows, accumulation):
    """Return the gradient norm that Trainer logs of a step over 4 rows, without DeepSpeed, on one CPU process."""
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2)
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(
            folder,
            per_device_train_batch_size=len(rows) // accumulation,
            gradient_accumulation_steps=accumulation,
            max_steps=1,
            logging_steps=1,
            max_grad_norm=1e6,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = Trainer(model=LlamaForCausalLM(config), args=options, train_dataset=rows)
        trainer.train()
    return next(line["grad_norm"] for line in trainer.state.log_history if "grad_norm" in line)


torch.manual_seed(1)
tokens = torch.randint(64, (4, 16))
rows = [{"input_ids": row, "labels": row} for row in tokens]
whole, parts = gradient_norm(rows, 1), gradient_norm(rows, 4)
print(f"transformers {transformers.__version__}: gradient norm {whole:.4f} in one batch, {parts:.4f} in 4 micro-batches, ratio {parts / whole:.3f}")
sys.exit(abs(parts / whole - 1) > 0.01)
