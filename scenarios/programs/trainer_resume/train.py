"""Trains with transformers' Trainer, is interrupted after a step, and goes on from its checkpoint with everything made anew.

torchrun --nproc_per_node 2 train.py --model Qwen/Qwen2.5-0.5B --deepspeed zero3.json --interrupt_after 1 --save_steps 1 ...

All of ``TrainingArguments`` are options. With ``--interrupt_after 0`` nothing interrupts it.
"""

import gc
from dataclasses import dataclass

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainerCallback, TrainingArguments

LENGTH = 512


@dataclass
class Arguments:
    model: str = "Qwen/Qwen2.5-0.5B"
    lora_rank: int = 0
    interrupt_after: int = 1


class Interruption(TrainerCallback):
    """Ends the training after a step, once what is due is saved."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step == self.step


def rows(number, vocabulary):
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(vocabulary, (number, LENGTH), generator=generator)
    return [{"input_ids": ids, "labels": ids} for ids in drawn]


def trainer():
    own, training = HfArgumentParser((Arguments, TrainingArguments)).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained(own.model, torch_dtype="bfloat16")
    if own.lora_rank:
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=own.lora_rank))
    return own, Trainer(model=model, args=training, train_dataset=rows(800, model.config.vocab_size))


def main():
    own, first = trainer()
    if own.interrupt_after:
        first.add_callback(Interruption(own.interrupt_after))
    first.train()
    del first
    gc.collect()
    if own.interrupt_after:
        trainer()[1].train(resume_from_checkpoint=True)


if __name__ == "__main__":
    main()
