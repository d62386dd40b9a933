"""Fine-tuning of a causal language model by trl's SFTTrainer, whole, by LoRA or by QLoRA, as fms-hf-tuning runs it for the
benchmark of fms-acceleration: packed rows of one length, gradient checkpointing, FlashAttention, AdamW in the weights' dtype."""

import argparse
import inspect
import os
from dataclasses import dataclass

import datasets
import torch
from peft import LoraConfig, get_peft_model
from peft.utils.other import fsdp_auto_wrap_policy
from tokenizers import Tokenizer, models
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
)
from trl import SFTConfig, SFTTrainer

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 3


@dataclass(frozen=True)
class Source:
    """A model, the number of its tokens once a padding token is added, and the longest row that its tokenizer allows."""

    name: str
    tokens: int
    length: int = 4096


SOURCES = {
    "mistral": Source("mistralai/Mistral-7B-v0.1", 32001),
    "mixtral": Source("mistralai/Mixtral-8x7B-Instruct-v0.1", 32001),
    "llama": Source("meta-llama/Llama-2-70b-hf", 32001),
    "santacoder": Source(os.path.join(HERE, "santacoder"), 49158, 2048),
    "powerlm": Source(os.path.join(HERE, "powerlm"), 49152),
}


def quantized(dtype, sharded):
    storage = {"bnb_4bit_quant_storage": dtype} if sharded else {}
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        **storage,
    )


def loaded(source, qlora, sharded):
    chosen = {"torch_dtype": torch.bfloat16, "attn_implementation": "flash_attention_2"}
    config = AutoConfig.from_pretrained(source.name)
    if not qlora:
        model = AutoModelForCausalLM.from_config(config, **chosen)
    else:
        name = source.name
        if os.path.isdir(name):
            name = "whole"
            AutoModelForCausalLM.from_config(config, torch_dtype=torch.bfloat16).save_pretrained(name)
        chosen["quantization_config"] = quantized(torch.bfloat16, sharded)
        model = AutoModelForCausalLM.from_pretrained(name, **chosen)
    model.resize_token_embeddings(source.tokens)
    return model


def adapted(model, lora):
    """Adapters without the cast to fp32 of peft's own preparation (the plug-in's ``accelerated-peft-bnb``)."""
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable()
    return get_peft_model(model, lora)


def tokenizer(source):
    words = Tokenizer(models.WordLevel({"<unk>": 0, "<pad>": 1, "<s>": 2, "</s>": 3}, unk_token="<unk>"))
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        model_max_length=source.length,
        unk_token="<unk>",
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
    )


def rows(source, number):
    row = [5] * source.length
    return datasets.Dataset.from_dict({"input_ids": [row] * number, "labels": [row] * number})


def after_init():
    return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()


def after_step():
    return torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()


class Readings(TrainerCallback):
    def on_step_end(self, *args, **kwargs):
        after_step()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=sorted(SOURCES), required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--lora", choices=["r16"])
    parser.add_argument("--bnb", choices=["baseline", "accelerated"])
    args = parser.parse_args()
    source, ranks = SOURCES[args.model], int(os.environ.get("WORLD_SIZE", "1"))
    config = SFTConfig(
        output_dir="out",
        learning_rate=2e-4 if args.lora else 2e-5,
        per_device_train_batch_size=args.batch,
        gradient_accumulation_steps=1,
        gradient_checkpointing=True,
        eval_strategy="no",
        save_strategy="no",
        weight_decay=0.01,
        warmup_steps=10,
        adam_epsilon=1e-4,
        lr_scheduler_type="linear",
        logging_strategy="steps",
        logging_steps=2,
        max_steps=STEPS,
        include_tokens_per_second=True,
        skip_memory_metrics=False,
        report_to="none",
        bf16=bool(args.bnb),
        max_seq_length=source.length,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    model = loaded(source, bool(args.bnb), ranks > 1)
    lora = None
    if args.lora:
        targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
        if args.bnb == "accelerated":
            targets.append("c_attn")
        lora = LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=16, lora_dropout=0.1, target_modules=targets)
    given = lora
    if args.bnb == "accelerated":
        model, given = adapted(model, lora), None
    words = "processing_class" if "processing_class" in inspect.signature(Trainer.__init__).parameters else "tokenizer"
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=rows(source, args.batch * ranks * STEPS),
        peft_config=given,
        callbacks=[Readings()],
        **{words: tokenizer(source)},
    )
    if trainer.is_fsdp_enabled and given is not None:
        trainer.accelerator.state.fsdp_plugin.auto_wrap_policy = fsdp_auto_wrap_policy(trainer.model)
    after_init()
    trainer.train()


if __name__ == "__main__":
    main()
