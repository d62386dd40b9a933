"""All of a 7B model by transformers' Trainer under ZeRO-3: what loading, evaluating and saving cost on card and host.

The base case loads the model before it reads its arguments, as a script does that makes its model first: transformers then
does not know that ZeRO-3 is to shard it, and each rank holds the whole model, on the host and for a moment on its card. It
evaluates and saves after every step, so that both lie inside the measured one.
"""

import os

from dsregress.probe.program import program

SCENARIO = program(
    version=1,
    summary="Qwen2.5-7B by transformers' Trainer, ZeRO-3 on 8 ranks: loaded before its arguments, evaluated and saved",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "trainer_checkpoints"),
    line="torchrun --nproc_per_node 8 train.py --model {base_model} --load_first {load_first} --deepspeed {settings} --bf16 "
    "--output_dir out --learning_rate 1e-5 --max_steps 100 --per_device_train_batch_size 1 --gradient_checkpointing True "
    "--per_device_eval_batch_size {eval_batch} --eval_strategy {evaluate} --eval_steps 1 "
    "--save_strategy {save} --save_steps 1 --save_total_limit 1 --save_only_model {only_model}",
    values={
        "base_model": "Qwen/Qwen2.5-7B",
        "load_first": True,
        "settings": "zero3.json",
        "evaluate": "steps",
        "eval_batch": 8,
        "save": "steps",
        "only_model": False,
    },
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 2}},
    variants=({}, {"load_first": False}),
    remedies={
        "load under zero.Init": {"load_first": False},
        "save less often": {"save": "no"},
        "save shards, without a whole model": {"settings": "zero3_shards.json"},
        "evaluate one row at a time": {"eval_batch": 1},
    },
)
