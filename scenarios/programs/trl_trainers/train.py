"""Trains a language model by a trainer of TRL's.

accelerate launch --config_file zero3.yaml --num_processes 2 train.py --trainer sft --output_dir out

All options of the trainer's configuration (``SFTConfig``, ``GRPOConfig``) are options. GRPO generates in the trainer, as many
completions of a prompt as a device has rows, and reads the prompts alone.
"""

from dataclasses import dataclass, field

from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoTokenizer, HfArgumentParser
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer


@dataclass
class Arguments:
    model: str = "Qwen/Qwen2.5-0.5B"
    trainer: str = field(default="sft", metadata={"help": "sft or grpo"})
    lora_rank: int = field(default=0, metadata={"help": "0 trains all parameters"})
    completion_tokens: int = field(default=16, metadata={"help": "the longest completion that GRPO generates"})


def variety(completions, **_):
    """More different characters are better."""
    return [float(len(set(text))) for text in completions]


def main() -> None:
    own, rest = HfArgumentParser(Arguments).parse_args_into_dataclasses(return_remaining_strings=True)
    config = {"sft": SFTConfig, "grpo": GRPOConfig}[own.trainer]
    (training,) = HfArgumentParser(config).parse_args_into_dataclasses(args=rest)
    training.model_init_kwargs = {"dtype": "bfloat16"}
    if own.trainer == "grpo":
        training.max_completion_length = own.completion_tokens
        training.num_generations = training.per_device_train_batch_size
    common = {
        "model": own.model,
        "args": training,
        "train_dataset": load_dataset("json", data_files="rows.jsonl", split="train"),
        "processing_class": AutoTokenizer.from_pretrained(own.model),
        "peft_config": LoraConfig(task_type="CAUSAL_LM", r=own.lora_rank) if own.lora_rank else None,
    }
    trainer = SFTTrainer(**common) if own.trainer == "sft" else GRPOTrainer(reward_funcs=variety, **common)
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    main()
