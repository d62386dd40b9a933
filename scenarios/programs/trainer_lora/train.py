"""Fine-tunes a causal language model with transformers' Trainer and a LoRA adapter of peft's.

torchrun --nproc_per_node 2 train.py --deepspeed zero3.json --learning_rate 2e-4 --output_dir out ...

All of ``TrainingArguments`` are options; a checkpoint in the output folder is resumed.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

HERE = Path(__file__).parent


@dataclass
class ModelArguments:
    model: str = "Qwen/Qwen2.5-0.5B"
    lora_rank: int = field(default=8, metadata={"help": "0 trains all parameters"})
    max_length: int = 512


def tokenized(file: Path, tokenizer, max_length: int) -> list[dict]:
    questions = [json.loads(line) for line in file.read_text().splitlines()]
    texts = [f"{row['question']}\n{row['answer']}{tokenizer.eos_token}" for row in questions]
    return [{"input_ids": ids} for ids in tokenizer(texts, truncation=True, max_length=max_length)["input_ids"]]


def main() -> None:
    own, training = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training.seed)
    tokenizer = AutoTokenizer.from_pretrained(own.model)
    model = AutoModelForCausalLM.from_pretrained(own.model, torch_dtype="bfloat16")
    if own.lora_rank:
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=own.lora_rank))
        model.print_trainable_parameters()
    trainer = Trainer(
        model=model,
        args=training,
        train_dataset=tokenized(HERE / "train.jsonl", tokenizer, own.max_length),
        eval_dataset=tokenized(HERE / "eval.jsonl", tokenizer, own.max_length),
        data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
        processing_class=tokenizer,
    )
    last = get_last_checkpoint(training.output_dir) if os.path.isdir(training.output_dir) else None
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model()


if __name__ == "__main__":
    main()
