"""Fine-tuning by transformers' Trainer over FSDP2 (`fully_shard`), as accelerate's launcher sets it up.

The same script as `scenarios/trainer_lora.py`, so that what differs is what shards. All of it is said by the launch line: a
file beside the script would be one more source of that scenario's program, and age its results.
"""

import os

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one

SCENARIO = program(
    version=1,
    summary="Qwen2.5 by transformers' Trainer over FSDP2 by accelerate, all parameters or LoRA, evaluation and checkpoints",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "trainer_lora"),
    line="accelerate launch --use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP "
    "--fsdp_reshard_after_forward true --fsdp_state_dict_type FULL_STATE_DICT --fsdp_cpu_ram_efficient_loading false "
    "--mixed_precision bf16 --num_processes 8 train.py --model {base_model} "
    "--lora_rank {lora_rank} --bf16 --output_dir out --learning_rate 2e-5 --lr_scheduler_type cosine --warmup_steps 2 "
    "--max_steps 100 --per_device_train_batch_size 2 --gradient_accumulation_steps {accumulation} --logging_steps 1 "
    "--gradient_checkpointing {gradient_checkpointing} --eval_strategy {evaluate} --eval_steps 1 "
    "--save_strategy {save} --save_steps 1 --save_total_limit 1",
    values={
        "base_model": "Qwen/Qwen2.5-0.5B",
        "lora_rank": 0,
        "accumulation": 2,
        "gradient_checkpointing": False,
        "evaluate": "steps",
        "save": "steps",
    },
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2}},
    unused=("deepspeed",),
    variants=(
        {},
        *one_by_one(lora_rank=(8,), accumulation=(1,), gradient_checkpointing=(True,)),
        {"evaluate": "no", "save": "no"},
    ),
)
