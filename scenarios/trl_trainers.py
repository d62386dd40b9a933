"""Supervised fine-tuning and GRPO by TRL's own trainers, ZeRO-3 by accelerate's YAML.

The script in ``programs/trl_trainers`` is the whole job, with a row of prompt and completion per question. GRPO generates in
the trainer: no engine is needed, and what generation holds and gathers is the trainer's own.
"""

import os

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one

_GRPO = {"trainer": "grpo"}

SCENARIO = program(
    version=1,
    summary="Qwen2.5 by TRL's SFTTrainer or GRPOTrainer, ZeRO-3 by accelerate, all parameters or LoRA",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "trl_trainers"),
    line="accelerate launch --config_file {settings} --num_processes 8 train.py --trainer {trainer} --model {base_model} "
    "--lora_rank {lora_rank} --bf16 true --per_device_train_batch_size 2 --gradient_accumulation_steps {accumulation} "
    "--gradient_checkpointing {gradient_checkpointing} --completion_tokens {completion_tokens} "
    "--output_dir out --learning_rate 1e-5 --logging_steps 1 --warmup_steps 2 --max_steps 100",
    values={
        "trainer": "sft",
        "base_model": "Qwen/Qwen2.5-0.5B",
        "settings": "zero3.yaml",
        "lora_rank": 0,
        "accumulation": 2,
        "gradient_checkpointing": True,
        "completion_tokens": 16,
    },
    packages={"trl": "1.16.0", "datasets": "5.2.0"},
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2}},
    variants=(
        {},
        _GRPO,
        *one_by_one(lora_rank=(8,), gradient_checkpointing=(False,), accumulation=(1,)),
        {**_GRPO, "lora_rank": 8},
    ),
)
