"""transformers' Trainer is interrupted after its first step and goes on from the checkpoint: what it trains from then on.

The base case saves after one step, lets go of everything, and begins again as after a restart, by
``resume_from_checkpoint``. So the measured step is the first of the new engine. Its losses, norms and weights are compared
with plain PyTorch that is interrupted and resumed alike, and ``interrupt_after=0`` is the same training without an
interruption.

LoRA has peft's defaults, and DeepSpeed's own schedule, because a schedule of torch's stops there (see
`scenarios/trainer_lora.py`).
"""

import os
from typing import Any

from dsregress.probe.program import program

_STAGES: tuple[dict[str, Any], ...] = ({}, {"settings": "zero2.json"}, {"settings": "zero1.json"})
_LORA = tuple({"lora_rank": 8, "settings": f"zero{stage}_scheduler.json"} for stage in (3, 2, 1))
_WHOLE = {"interrupt_after": 0}

SCENARIO = program(
    version=1,
    summary="Qwen2.5-0.5B by transformers' Trainer, ZeRO-3 on 2 ranks: saved, interrupted and resumed after a step",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "trainer_resume"),
    line="torchrun --nproc_per_node 2 train.py --deepspeed {settings} --model {base_model} --lora_rank {lora_rank} "
    "--interrupt_after {interrupt_after} --bf16 --output_dir out --learning_rate 1e-4 --warmup_steps 2 --max_steps 100 "
    "--per_device_train_batch_size 1 --gradient_accumulation_steps {accumulation} --save_strategy steps --save_steps 1 "
    "--save_only_model {only_model} --logging_steps 1 --report_to none",
    values={
        "base_model": "Qwen/Qwen2.5-0.5B",
        "settings": "zero3.json",
        "lora_rank": 0,
        "accumulation": 1,
        "interrupt_after": 1,
        "only_model": False,
    },
    devices={"cpu": {"tiny": True}, "sim": {"base_model": "Qwen/Qwen2.5-7B", "world_size": 8}},
    variants=(
        *_STAGES,
        *_LORA,
        {"accumulation": 2},
        *({**variant, **_WHOLE} for variant in (*_STAGES, *_LORA)),
    ),
)
