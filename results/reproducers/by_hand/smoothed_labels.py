# pip install torch==2.13.0 transformers==4.55.4 accelerate==1.10.1  # shows the fault: exit code 1
# python smoothed_labels.py
#
# A classification with several labels for each row is trained by Trainer with label smoothing.
import sys

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
model = BertForSequenceClassification(BertConfig(num_labels=3, problem_type="multi_label_classification", **sizes))
rows = [{"input_ids": torch.arange(8), "labels": torch.tensor([1.0, 0.0, 1.0])}] * 4
args = TrainingArguments("out", max_steps=1, label_smoothing_factor=0.1, use_cpu=True, report_to=[], save_strategy="no")
try:
    Trainer(model, args, train_dataset=rows).train()
    said = "trains"
except RuntimeError as error:
    said = f"{type(error).__name__}: {error}"
print(f"transformers {transformers.__version__}: {said}")
sys.exit(said != "trains")
