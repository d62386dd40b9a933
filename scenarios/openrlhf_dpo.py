"""OpenRLHF's DPO as its `train_dpo_llama.sh` has it, packed, in every release from 0.5 on: Llama-3-8B, ZeRO-3, 8 ranks.

As `openrlhf_dpo_8b`, with its options spelled as each release does, see `openrlhf_sft`, and pairs of up to 2048 tokens.
"""

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one
from scenarios._openrlhf import PACKAGES, RELEASES

SCENARIO = program(
    version=1,
    summary="OpenRLHF's train_dpo in any release: Llama-3-8B with a reference on 8 ranks, ZeRO-3, packed pairs of 2048",
    folder=RELEASES,
    line="PYTHONPATH={engine} deepspeed command.py train_dpo --pretrain {pretrain} --max_len {length}"
    " --dataset OpenRLHF/preference_dataset_mixture2_and_safe_pku --apply_chat_template --chosen_key chosen"
    " --rejected_key rejected --train_batch_size {train} --micro_train_batch_size 1 --max_samples 500"
    " --save_path ./checkpoint --save_steps -1 --logging_steps 1 --eval_steps -1 --zero_stage {stage} --max_epochs 1"
    " --bf16 {attention} {packed} --learning_rate 5e-7 --beta 0.1 {checkpointing} {more}",
    ranks=8,
    values={
        "engine": "no_engine", "pretrain": "OpenRLHF/Llama-3-8b-sft-mixture", "length": 2048, "train": 8, "stage": 3,
        "attention": "--flash_attn", "packed": "--packing_samples", "checkpointing": "--gradient_checkpointing",
        "more": "",
    },
    gpu="A100-80G",
    synthetic_data=True,
    packages=PACKAGES,
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "length": 96, "train": 4}},
    variants=({}, *one_by_one(packed=("",))),
    remedies={"the reference on the host": {"more": "--ref_offload"}},
)  # fmt: skip
