import argparse

from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Qwen/Qwen2.5-0.5B")
parser.add_argument("--local_rank", type=int, default=-1)
options = parser.parse_args()
args = TrainingArguments(
    output_dir="out",
    deepspeed="zero3.json",
    bf16=True,
    per_device_train_batch_size=1,
    gradient_accumulation_steps=4,
    max_steps=50,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
)
tokenizer = AutoTokenizer.from_pretrained(options.model)
model = AutoModelForCausalLM.from_pretrained(options.model)
texts = [f"Question {i}: what is {i} and {i}? Answer: {2 * i}." for i in range(400)]
data = Dataset.from_dict({"text": texts}).map(lambda row: tokenizer(row["text"]), remove_columns="text")
tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
trainer = Trainer(
    model=model, args=args, train_dataset=data, data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False)
)
trainer.train()
