"""What DeepSpeed splits besides ZeRO's states: MiCS, tensor parallelism, and its own activation checkpointing.

`programs/deepspeed_features` is a loop over `deepspeed.initialize`, with a model that transformers builds. A release that
lacks a feature fails by its own words, and that is the outcome. None of these changes what is trained, so each has the
truth of plain PyTorch.

Weights are loaded, as `from_pretrained` does it under ZeRO-3. With ``weights`` config the model is built from its
configuration, as for training from scratch: under zero.Init, transformers from 4.52 to 5.2 leaves it with the initial
values of `torch.nn` instead of its own, and the first loss is 221 instead of 7.
"""

import os

from dsregress.probe.program import program

_TENSOR_PARALLEL = {"feature": "tensor_parallel", "stage": 1}

SCENARIO = program(
    version=2,
    summary="Qwen2.5-0.5B by DeepSpeed: MiCS, tensor parallelism (autotp), DeepSpeed's activation checkpointing",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "deepspeed_features"),
    line="deepspeed --num_gpus 8 train.py --model {base_model} --feature {feature} --weights {weights} "
    "--group {group} --stage {stage} --dtype {dtype}",
    values={
        "base_model": "Qwen/Qwen2.5-0.5B",
        "feature": "none",
        "weights": "pretrained",
        "group": 2,
        "stage": 3,
        "dtype": "bf16",
    },
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
        {"weights": "config"},
        # What becomes of the loss scale: 30 steps before the measured one.
        {"warmup_steps": 30},
        {"warmup_steps": 30, "dtype": "fp16"},
    ),
)
