"""`python -m openrlhf.cli.NAME` with its options as the installed release spells them.

Options are given as 0.5 has them. 0.8.10 and later ask for the attention by name, 0.9.2 and later for the weights' dtype, and
from 0.10.2 on an option has the name of its group in front. What is declared in the command's source decides, and the line
that a user of the release would type is printed. An option of no row below is passed on as it is.
"""

import importlib.util
import runpy
import sys
from pathlib import Path

#: An option of 0.5: its later spellings.
SPELLINGS = {
    "--pretrain": ("--model.model_name_or_path",),
    "--ref_offload": ("--ref.offload",),
    "--dataset": ("--data.dataset",),
    "--input_key": ("--data.input_key",),
    "--output_key": ("--data.output_key",),
    "--chosen_key": ("--data.chosen_key",),
    "--rejected_key": ("--data.rejected_key",),
    "--apply_chat_template": ("--data.apply_chat_template",),
    "--max_samples": ("--data.max_samples",),
    "--max_len": ("--data.max_len",),
    "--train_batch_size": ("--train.batch_size",),
    "--micro_train_batch_size": ("--train.micro_batch_size",),
    "--max_epochs": ("--train.max_epochs",),
    "--learning_rate": ("--adam.lr",),
    "--beta": ("--model.beta",),
    "--save_path": ("--ckpt.output_dir",),
    "--save_steps": ("--ckpt.save_steps",),
    "--logging_steps": ("--logger.logging_steps",),
    "--eval_steps": ("--eval.steps",),
    "--zero_stage": ("--ds.zero_stage",),
    "--bf16": ("--param_dtype bf16", "--ds.param_dtype bf16"),
    "--flash_attn": ("--attn_implementation flash_attention_2", "--ds.attn_implementation flash_attention_2"),
    "--packing_samples": ("--ds.packing_samples",),
    "--adam_offload": ("--ds.adam_offload",),
    "--lora_rank": ("--ds.lora.rank",),
    "--gradient_checkpointing": ("--model.gradient_checkpointing_enable",),
    "--gradient_checkpointing_use_reentrant": ("--model.gradient_checkpointing_reentrant",),
}


def spelled(words, source):
    for word in words:
        known = (word, *SPELLINGS.get(word, ()))
        yield from next((option for option in known if f'"{option.split()[0]}"' in source), word).split(" ")


def main(name, *words):
    module = f"openrlhf.cli.{name}"
    source = Path(importlib.util.find_spec(module).origin).read_text()
    sys.argv = [module, *spelled(words, source)]
    print(f"python -m {' '.join(sys.argv)}", flush=True)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    launcher = [word for word in sys.argv[1:] if word.startswith("--local_rank")]
    main(*(word for word in sys.argv[1:] if word not in launcher), *launcher)
