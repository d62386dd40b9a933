"""Trains all of a causal language model with transformers' Trainer, and saves checkpoints.

torchrun --nproc_per_node 8 train.py --model Qwen/Qwen2.5-7B --deepspeed zero3.json --bf16 --output_dir out ...

All of ``TrainingArguments`` are options. With ``--load_first`` the model is loaded before they are read, so transformers
does not know yet that ZeRO-3 is to shard it.
"""

import argparse

import torch
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

LENGTH = 512


def rows(number):
    return [{"input_ids": (ids := torch.arange(row, row + LENGTH)), "labels": ids} for row in range(number)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--load_first", choices=("true", "false"), default="false")
    own, rest = parser.parse_known_args()

    def load():
        return AutoModelForCausalLM.from_pretrained(own.model, torch_dtype="bfloat16")

    model = load() if own.load_first == "true" else None
    (training,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(rest)
    model = model or load()
    Trainer(model=model, args=training, train_dataset=rows(800), eval_dataset=rows(8)).train()


if __name__ == "__main__":
    main()
