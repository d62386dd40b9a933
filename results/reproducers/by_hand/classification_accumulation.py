# pip install torch==2.13.0 transformers==5.24.0 accelerate==1.15.0  # shows the fault: exit code 1
# pip install torch==2.13.0 transformers==4.53.3 accelerate==1.15.0  # does not: exit code 0
# python classification_accumulation.py
#
# Sequence classification by Trainer in four equal micro-batches, beside the model's own loss and gradient of one of them.
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForSequenceClassification, Trainer, TrainingArguments

sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 64, "num_attention_heads": 4}
options = {
    "bert": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "llama": {"num_key_value_heads": 2, "pad_token_id": 0},
    "qwen2": {"num_key_value_heads": 2, "pad_token_id": 0},
}
batch = {
    "input_ids": torch.randint(1, 64, (2, 8), generator=torch.Generator().manual_seed(1)),
    "labels": torch.tensor([0, 1]),
}
found = {}
for kind, more in options.items():
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(AutoConfig.for_model(kind, **sizes, **more))
    loss = model(**batch).loss
    loss.backward()
    norm = torch.nn.utils.get_total_norm([weight.grad for weight in model.parameters() if weight.grad is not None])
    model.zero_grad()
    args = TrainingArguments(
        "out", gradient_accumulation_steps=4, max_steps=1, logging_steps=1, max_grad_norm=1e9, use_cpu=True, report_to=[]
    )
    trainer = Trainer(model, args, train_dataset=[{"input_ids": batch["input_ids"][0], "labels": 0}])
    trainer.get_train_dataloader = lambda: [batch] * 4
    trainer.train()
    logged = next(one for one in trainer.state.log_history if "loss" in one)
    found[kind] = logged["loss"] / float(loss), float(logged["grad_norm"]) / float(norm)
shown = "; ".join(f"{kind}: loss {loss:.3f}, gradient norm {norm:.3f}" for kind, (loss, norm) in found.items())
print(f"transformers {transformers.__version__}: of the model's own, {shown}")
sys.exit(any(abs(norm - 1) > 0.01 for _, norm in found.values()))
