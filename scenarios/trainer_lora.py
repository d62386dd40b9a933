"""LoRA fine-tuning as most people run it: transformers' Trainer, peft's adapter, ZeRO-3 from a JSON file, torchrun.

The script in ``programs/trainer_lora`` is the whole job; nothing of it is arranged for the measurement. It uses a
schedule, evaluates and saves after every step, so all three lie inside the measured one. Each parameter is an option
of its command line.

With transformers 4, under ZeRO-3 and ZeRO-2 alike, Trainer's group of parameters without weight decay is empty when
only LoRA's matrices train. DeepSpeed leaves the empty group out, and from torch 2.10 on a schedule of torch's stops
there: ``zip() argument 2 is longer than argument 1`` (transformers#43692, OpenRLHF#1225, LlamaFactory#10144). So the
base case fails on stacks with such a torch, as its users' do. With a ``scheduler`` in the DeepSpeed configuration the
same job trains. With transformers 5.24 both train.
"""

import os

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one

_DEEPSPEED_SCHEDULE = {"settings": "zero3_scheduler.json"}

SCENARIO = program(
    version=1,
    summary="Qwen2.5 with LoRA by transformers' Trainer and peft, ZeRO-3, cosine schedule, evaluation and checkpoints",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "trainer_lora"),
    line="torchrun --nproc_per_node 8 train.py --deepspeed {settings} --model {base_model} --lora_rank {lora_rank} --bf16 "
    "--output_dir out --learning_rate 2e-4 --lr_scheduler_type {schedule} --warmup_steps {schedule_warmup} --max_steps 100 "
    "--per_device_train_batch_size 2 --logging_steps 1 --gradient_checkpointing {gradient_checkpointing} "
    "--eval_strategy {evaluate} --eval_steps 1 --save_strategy {save} --save_steps 1 --save_total_limit 1",
    values={
        "base_model": "Qwen/Qwen2.5-0.5B",
        "settings": "zero3.json",
        "lora_rank": 8,
        "schedule": "cosine",
        "schedule_warmup": 2,
        "gradient_checkpointing": False,
        "evaluate": "steps",
        "save": "steps",
    },
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2}},
    variants=(
        {},
        _DEEPSPEED_SCHEDULE,
        *one_by_one(
            settings=("zero2.json",),
            schedule=("linear", "constant"),
            lora_rank=(0,),
        ),
        {**_DEEPSPEED_SCHEDULE, "gradient_checkpointing": True},
        {**_DEEPSPEED_SCHEDULE, "schedule_warmup": 0},
        {**_DEEPSPEED_SCHEDULE, "evaluate": "no", "save": "no"},
    ),
    remedies={"DeepSpeed's own schedule": _DEEPSPEED_SCHEDULE},
)
