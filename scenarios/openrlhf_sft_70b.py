"""DeepSpeed#7116 by the command that it names: OpenRLHF's `train_sft_llama.sh` with a 70B model, the optimizer on the host.

Reported: DeepSpeed 0.15.0 trains it, 0.16.4 runs out of memory. OpenRLHF's command as it is; not known, and chosen: 32
ranks, ZeRO-3 (the script's own stage 2 cannot hold 70B), packed samples as in the actor's report, and 64 instead of 256
sequences to a step, so that a step has one micro-batch.
"""

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one
from scenarios._openrlhf import FOLDER, PACKAGES

SCENARIO = program(
    version=1,
    summary="OpenRLHF's train_sft: Llama-3-70B on 32 ranks, ZeRO-3, optimizer on the host, sequences of 2048",
    folder=FOLDER,
    line="deepspeed --module openrlhf.cli.train_sft --max_len {length} --dataset Open-Orca/OpenOrca --input_key question"
    " --output_key response --train_batch_size {train} --micro_train_batch_size {micro} --max_samples 2000"
    " --pretrain {pretrain} --save_path ./checkpoint --save_steps -1 --logging_steps 1"
    " --eval_steps -1 --zero_stage {stage} --max_epochs 1 --bf16 {adam} {packed} --learning_rate 5e-6"
    " {checkpointing} {reentrant}",
    ranks=32,
    values={
        "pretrain": "meta-llama/Meta-Llama-3-70B", "length": 2048, "train": 64, "micro": 2, "stage": 3,
        "adam": "--adam_offload", "packed": "--flash_attn --packing_samples",
        "checkpointing": "--gradient_checkpointing", "reentrant": "",
    },
    gpu="A800-80G",
    synthetic_data=True,
    packages=PACKAGES,
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2, "length": 48, "train": 8}},
    variants=({}, *one_by_one(packed=("--flash_attn",), adam=("",))),
    remedies={
        "reentrant checkpointing": {"reentrant": "--gradient_checkpointing_use_reentrant"},
        "one sequence to a micro-batch": {"micro": 1},
        "twice the nodes": {"world_size": 64, "train": 128},
    },
    pins={"pin DeepSpeed 0.15.0": {"deepspeed": "0.15.0"}, "pin DeepSpeed 0.16.8": {"deepspeed": "0.16.8"}},
)  # fmt: skip
