"""OpenRLHF's DPO as its `train_dpo_llama.sh` has it, packed: Llama-3-8B and its reference, ZeRO-3, 8 ranks.

The options are the script's, with its `--packing_samples` switched on and a smaller `--train_batch_size` (16, not 256), so
that a step has two micro-batches instead of 32.
"""

from dsregress.probe.program import program
from scenarios._openrlhf import FOLDER, PACKAGES

SCENARIO = program(
    version=1,
    summary="OpenRLHF's train_dpo: Llama-3-8B with a reference on 8 ranks, ZeRO-3, packed pairs of up to 8192 tokens",
    folder=FOLDER,
    line="deepspeed --module openrlhf.cli.train_dpo --save_path ./checkpoint --save_steps -1 --logging_steps 1"
    " --eval_steps -1 --train_batch_size {train} --micro_train_batch_size 1 --pretrain OpenRLHF/Llama-3-8b-sft-mixture"
    " --bf16 --max_epochs 1 --max_len {length} --zero_stage {stage} --learning_rate 5e-7 --beta 0.1"
    " --dataset OpenRLHF/preference_dataset_mixture2_and_safe_pku --apply_chat_template --chosen_key chosen"
    " --rejected_key rejected {packed} {reference} --max_samples 500 {checkpointing} {reentrant}",
    ranks=8,
    values={
        "length": 8192, "train": 16, "stage": 3, "packed": "--flash_attn --packing_samples", "reference": "",
        "checkpointing": "--gradient_checkpointing", "reentrant": "",
    },
    gpu="A100-80G",
    synthetic_data=True,
    packages=PACKAGES,
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "length": 96, "train": 4}},
    variants=({}, {"packed": "--flash_attn"}),
    remedies={
        "the reference on the host": {"reference": "--ref_offload"},
        "reentrant checkpointing": {"reentrant": "--gradient_checkpointing_use_reentrant"},
    },
)  # fmt: skip
