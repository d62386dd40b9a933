"""GRPO of a language model with a LoRA adapter, by TRL's trainer.

accelerate launch --config_file zero3.yaml --num_processes 4 train.py --output_dir out --bf16

All of ``GRPOConfig`` are options. ``--loading cuda`` loads the whole model onto the GPU of every rank before there is a
configuration, ``--loading name`` leaves loading to the trainer, under DeepSpeed's zero.Init. ``--truncation trainer`` has
TRL cut the prompts, by its option ``max_prompt_length``, which it ignores from 0.26 on and refuses from 0.28 on;
``--truncation data`` cuts them before, as TRL advises since.
"""

from dataclasses import dataclass, field

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, HfArgumentParser
from trl import GRPOConfig, GRPOTrainer


@dataclass
class Arguments:
    base_model: str = "Qwen/Qwen2.5-7B"
    loading: str = field(default="cuda", metadata={"help": "cuda, or name"})
    attention: str = "flash_attention_2"
    prompts: str = "prompts.jsonl"
    prompt_tokens: int = field(default=512, metadata={"help": "the longest prompt"})
    truncation: str = field(default="trainer", metadata={"help": "what cuts longer prompts: trainer, or data"})
    checkpointing: str = field(default="none", metadata={"help": "none, reentrant or non_reentrant"})
    engine: str = field(default="server", metadata={"help": "none generates in the trainer; server or colocate: vLLM"})
    engine_share: float = field(default=0.3, metadata={"help": "of the trainer's own GPU, for an engine on it"})
    engine_sleeps: bool = field(default=False, metadata={"help": "while the trainer does not generate"})


def variety(completions, **_):
    """More different characters are better."""
    return [float(len(set(text))) for text in completions]


def last_tokens(text, tokenizer, longest):
    begins = [begin for begin, _ in tokenizer(text, return_offsets_mapping=True)["offset_mapping"]]
    return text if len(begins) <= longest else text[begins[-longest] :]


def main() -> None:
    own, rest = HfArgumentParser(Arguments).parse_args_into_dataclasses(return_remaining_strings=True)
    how = {"torch_dtype": torch.bfloat16, "attn_implementation": own.attention}
    model = own.base_model
    if own.loading == "cuda":
        model = AutoModelForCausalLM.from_pretrained(own.base_model, **how).to("cuda")
    if own.truncation == "trainer":
        rest += ["--max_prompt_length", str(own.prompt_tokens)]
    (training,) = HfArgumentParser(GRPOConfig).parse_args_into_dataclasses(args=rest)
    if own.loading == "name":
        training.model_init_kwargs = {**how, "torch_dtype": "bfloat16"}
    training.use_vllm = own.engine != "none"
    if own.engine != "none" and hasattr(training, "vllm_mode"):  # TRL 0.17 knows servers alone
        training.vllm_mode = own.engine
    if own.engine == "colocate":
        training.vllm_gpu_memory_utilization = own.engine_share
        if own.engine_sleeps:
            training.vllm_enable_sleep_mode = True
    training.gradient_checkpointing = own.checkpointing != "none"
    training.gradient_checkpointing_kwargs = {"use_reentrant": own.checkpointing == "reentrant"}
    tokenizer = AutoTokenizer.from_pretrained(own.base_model, padding_side="left")
    data = load_dataset("json", data_files=own.prompts, split="train")
    if own.truncation == "data":
        data = data.map(lambda row: {"prompt": last_tokens(row["prompt"], tokenizer, own.prompt_tokens)})
    adapter = LoraConfig(
        r=16,
        lora_alpha=32,
        lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        task_type="CAUSAL_LM",
    )
    trainer = GRPOTrainer(
        model=model,
        args=training,
        reward_funcs=variety,
        train_dataset=data,
        processing_class=tokenizer,
        peft_config=adapter,
    )
    trainer.train()


if __name__ == "__main__":
    main()
