"""Fine-tuning as in ``fms_sft``, with the kernels that fms-acceleration's own package puts into the model: losses, norms and
rotations by Triton, and on 4 bits fused LoRA. ``--kernels`` is the package's configuration, as the source has it."""

import argparse
import os
from dataclasses import dataclass

import datasets
import torch
from fms_acceleration import AccelerationFramework
from peft import LoraConfig, get_peft_model
from peft.utils.other import fsdp_auto_wrap_policy
from tokenizers import Tokenizer, models
from transformers import AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 3


@dataclass(frozen=True)
class Source:
    """A model, the number of its tokens once those that its tokenizer lacks are added, and the length of a row."""

    name: str
    tokens: int
    length: int = 4096


SOURCES = {
    "mistral": Source("mistralai/Mistral-7B-v0.1", 32001),
    "mixtral": Source("mistralai/Mixtral-8x7B-Instruct-v0.1", 32001),
    "llama2": Source("meta-llama/Llama-2-70b-hf", 32001),
    "llama3": Source("meta-llama/Meta-Llama-3-8B", 128258),
    "santacoder": Source(os.path.join(HERE, "santacoder"), 49158, 2048),
    "powerlm": Source(os.path.join(HERE, "powerlm"), 49152),
}


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
        storage = {"bnb_4bit_quant_storage": torch.bfloat16} if sharded else {}
        chosen["quantization_config"] = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_use_double_quant=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_compute_dtype=torch.bfloat16,
            **storage,
        )
        model = AutoModelForCausalLM.from_pretrained(name, **chosen)
    model.resize_token_embeddings(source.tokens)
    return model


def adapted(model, lora):
    """Adapters without the cast to fp32 of peft's own preparation, as the source's plug-in for 4 bits makes them."""
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
    parser.add_argument("--bnb", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--kernels", required=True)
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
        bf16=args.bf16,
        max_seq_length=source.length,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    framework = AccelerationFramework(args.kernels)
    model = loaded(source, args.bnb, ranks > 1)
    lora = None
    if args.lora:
        targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
        if args.bnb and args.model == "santacoder":
            targets.append("c_attn")
        lora = LoraConfig(task_type="CAUSAL_LM", r=16, lora_alpha=16, lora_dropout=0.1, target_modules=targets)
    if args.bnb:
        model, lora = adapted(model, lora), None
    model, (lora,) = framework.augmentation(model, config, modifiable_args=(lora,))
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=rows(source, args.batch * ranks * STEPS),
        peft_config=lora,
        callbacks=[Readings()],
        tokenizer=tokenizer(source),
    )
    if trainer.is_fsdp_enabled and lora is not None:
        trainer.accelerator.state.fsdp_plugin.auto_wrap_policy = fsdp_auto_wrap_policy(model)
    for callback in framework.get_callbacks_and_ready_for_train(model, trainer.accelerator):
        trainer.add_callback(callback)
    trainer.train()


if __name__ == "__main__":
    main()
