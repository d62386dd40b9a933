# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.2.1  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.3.0  # does not: exit code 0
# python trainer_unwrap.py
import sys
import tempfile

import accelerate
import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

sizes = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 64}
model = LlamaForCausalLM(LlamaConfig(**sizes))
tokens = torch.arange(16)
rows = [{"input_ids": tokens, "labels": tokens}] * 4
end = "trains"
try:
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(folder, max_steps=1, per_device_train_batch_size=2, save_strategy="no", report_to="none", use_cpu=True)
        Trainer(model=model, args=options, train_dataset=rows).train()
except (TypeError, ImportError) as error:
    end = f"{type(error).__name__}: {str(error).splitlines()[0]}"
print(f"transformers {transformers.__version__}, accelerate {accelerate.__version__}: {end}")
sys.exit(end != "trains")
