"""What DeepSpeed splits besides ZeRO's states: MiCS, tensor parallelism, and its own activation checkpointing.

`programs/deepspeed_features` is a loop over `deepspeed.initialize`, with a model that transformers builds. A release that
lacks a feature fails by its own words, and that is the outcome. Plain PyTorch has none of these, so losses are compared
between releases, and with the base case's, which trains the same rows from the same weights under ZeRO-3 alone.
"""

import os

from harness.probe.program import program

_TENSOR_PARALLEL = {"feature": "tensor_parallel", "stage": 1}

SCENARIO = program(
    version=1,
    summary="Qwen2.5-0.5B by DeepSpeed: MiCS, tensor parallelism (autotp), DeepSpeed's activation checkpointing",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "deepspeed_features"),
    line="deepspeed --num_gpus 8 train.py --model {base_model} --feature {feature} --group {group} --stage {stage} "
    "--dtype {dtype}",
    values={"base_model": "Qwen/Qwen2.5-0.5B", "feature": "none", "group": 2, "stage": 3, "dtype": "bf16"},
    devices={"sim": {}, "cpu": {"tiny": True, "world_size": 4}},
    variants=(
        {},
        {"feature": "mics"},
        {"feature": "mics", "dtype": "fp16"},
        {"stage": 1},
        _TENSOR_PARALLEL,
        {**_TENSOR_PARALLEL, "dtype": "fp16"},
        {"feature": "activations"},
        {"feature": "cpu_activations"},
        # What becomes of the loss scale: 30 steps before the measured one.
        {"warmup_steps": 30},
        {"warmup_steps": 30, "dtype": "fp16"},
    ),
)
