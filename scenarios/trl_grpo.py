"""TRL#3172 by TRL's own trainer: GRPO of Qwen2.5-7B with LoRA, ZeRO-3 by accelerate's YAML, 4 of 8 H100-80G train, 4 serve.

``programs/trl_grpo/train.py`` loads the model as the report did, whole and ``.to("cuda")`` on every rank before there is a
configuration, so before a rank has chosen its card: all copies go to GPU 0 (``loading`` cuda). vLLM needs a GPU:
``programs/trl_grpo/no_engine`` answers in its place, so that what the trainer does for an engine is the real code: whole
weights gathered at once, adapters merged, a request per parameter. A server runs on other GPUs;
``gpu_memory_utilization`` is the share of this one that a server of somebody else's keeps.
``colocate`` puts an engine onto the trainer's own, from TRL 0.18 on: it holds its ``engine_share`` of the card, with
``engine_sleeps`` only while it generates and gets weights.

With torch from 2.10 on the base case ends after its first step, as `scenarios/trainer_lora.py` says; with DeepSpeed's own
schedule it trains.

Not known in public, and chosen: TRL's defaults of that day, 512 + 256 tokens and 8 samples per device, with prompts
that fill the 512 and completions that fill the 256, and a KL coefficient of 0.04.
"""

import os
from collections.abc import Mapping
from typing import Any

from dsregress.probe.program import program
from dsregress.probe.scenario import one_by_one

_DEEPSPEED_SCHEDULE = {"settings": "zero3_scheduler.yaml"}
_CUT = {**_DEEPSPEED_SCHEDULE, "truncation": "data"}
_REENTRANT = {**_CUT, "checkpointing": "reentrant"}
_ENGINES: tuple[Mapping[str, Any], ...] = (
    {},
    {"engine": "colocate"},
    {"engine": "colocate", "engine_sleeps": True},
    {"engine": "none"},
)
_REMEDIES: Mapping[str, Mapping[str, Any]] = {
    "reentrant checkpointing": {"checkpointing": "reentrant"},
    "non-reentrant checkpointing": {"checkpointing": "non_reentrant"},
    "load under zero.Init": {"loading": "name"},
    "half the samples per device": {"samples": 4},
    "expandable segments": {"expandable_segments": "True"},
    "no reference": {"kl_coefficient": 0.0},
    "DeepSpeed's own schedule": _DEEPSPEED_SCHEDULE,
}

SCENARIO = program(
    version=1,
    summary="TRL's GRPOTrainer: Qwen2.5-7B with LoRA, ZeRO-3 by accelerate, generation by a vLLM server on other GPUs",
    folder=os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "trl_grpo"),
    line="PYTHONPATH=no_engine SERVED_MODEL=Qwen/Qwen2.5-7B "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:{expandable_segments} "
    "accelerate launch --config_file {settings} --num_processes 4 train.py --loading {loading} --attention {attention} "
    "--checkpointing {checkpointing} --engine {engine} --engine_share {engine_share} --engine_sleeps {engine_sleeps} "
    "--per_device_train_batch_size {samples} --num_generations {generations} --prompt_tokens {prompt_tokens} "
    "--truncation {truncation} --max_completion_length {completion_tokens} --beta {kl_coefficient} --bf16 true "
    "--output_dir out --logging_steps 1 --warmup_steps 2 --max_steps 100",
    gpu="H100-80G",
    values={
        "settings": "zero3.yaml",
        "loading": "cuda",
        "attention": "flash_attention_2",
        "checkpointing": "none",
        "engine": "server",
        "engine_share": 0.3,
        "engine_sleeps": False,
        "gpu_memory_utilization": 0.0,
        "samples": 8,
        "generations": 8,
        "prompt_tokens": 512,
        "truncation": "trainer",
        "completion_tokens": 256,
        "kl_coefficient": 0.04,
        "expandable_segments": "False",
    },
    packages={"trl": "0.24.0"},
    devices={
        "sim": {},
        "cpu": {
            "tiny": True,
            "world_size": 2,
            "attention": "sdpa",
            "samples": 2,
            "generations": 2,
            "prompt_tokens": 32,
            "completion_tokens": 8,
        },
    },
    variants=(
        {},
        *_REMEDIES.values(),
        # From 0.26 on TRL leaves prompts as long as they are.
        _CUT,
        # All 8 cards train, and the engines keep vLLM's default share of 4 of them: of the one at hand, too.
        {"world_size": 8, "gpu_memory_utilization": 0.9},
        *({**_REENTRANT, **engine} for engine in _ENGINES),
        *one_by_one(engine=("none",)),
    ),
    remedies={**_REMEDIES, "serve on other GPUs": {"gpu_memory_utilization": 0.0}},
)
