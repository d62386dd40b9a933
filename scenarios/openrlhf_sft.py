"""OpenRLHF's SFT as its `train_sft_llama.sh` has it, packed, in every release from 0.5 on: Llama-3-8B, ZeRO-3, 8 ranks.

The command is OpenRLHF's. `programs/openrlhf_releases/command.py` spells its options as the release does, and
`programs/openrlhf_releases/no_engine` is there because 0.7.1 to 0.7.5 import vLLM for SFT as well (without it: `engine` .).
"""

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one
from scenarios._openrlhf import PACKAGES, RELEASES

SCENARIO = program(
    version=1,
    summary="OpenRLHF's train_sft in any release: Llama-3-8B on 8 ranks, ZeRO-3, packed sequences of 2048",
    folder=RELEASES,
    line="PYTHONPATH={engine} deepspeed command.py train_sft --pretrain {pretrain} --max_len {length}"
    " --dataset Open-Orca/OpenOrca --input_key question --output_key response --train_batch_size {train}"
    " --micro_train_batch_size {micro} --max_samples 500 --save_path ./checkpoint --save_steps -1 --logging_steps 1"
    " --eval_steps -1 --zero_stage {stage} --max_epochs 1 --bf16 {attention} {packed} --learning_rate 5e-6"
    " {checkpointing} {more}",
    ranks=8,
    values={
        "engine": "no_engine", "pretrain": "meta-llama/Meta-Llama-3-8B", "length": 2048, "train": 16, "micro": 2,
        "stage": 3, "attention": "--flash_attn", "packed": "--packing_samples",
        "checkpointing": "--gradient_checkpointing", "more": "",
    },
    gpu="A100-80G",
    synthetic_data=True,
    packages=PACKAGES,
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "length": 48, "train": 8}},
    variants=({}, *one_by_one(engine=(".",), packed=("",), stage=(2,))),
    remedies={"the optimizer on the host": {"more": "--adam_offload"}, "ZeRO-2": {"stage": 2}},
)  # fmt: skip
