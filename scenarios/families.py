"""The generic families: one model, forward, backward and step, in every configuration that people report trouble with.

Two lists of variants: `COVERAGE` for an ordinary model, and `TIED` for what tied embeddings and biases change. What each
variant exercises, and which oracle judges it, is listed in docs/coverage.md. Standard library only, as scenarios are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsregress.probe.scenario import Scenario, one_by_one

Variants = tuple[Mapping[str, Any], ...]

_WAYS_OF_CHECKPOINTING: Variants = one_by_one(gradient_checkpointing=("none", "reentrant", "non_reentrant"))

COVERAGE: Variants = (
    *_WAYS_OF_CHECKPOINTING,
    # how states are split, and where they lie
    *one_by_one(zero_stage=(0, 1, 2), zero_init=(False,), offload_optimizer=(True,)),
    {"offload_optimizer": True, "offload_param": True},
    {"world_size": 4, "hpz_partition_size": 2},
    # what is whole when: read hazards of small parameters, nothing kept or prefetched, reduction overlapping backward
    {"persistence_threshold": "auto"},
    {"max_live_parameters": 0, "max_reuse_distance": 0, "prefetch_bucket_size": 0},
    {"overlap_comm": True, "zero_stage": 2},
    {"zero_stage": 2, "round_robin_gradients": True},
    {"overlap_comm": False},
    # dtypes
    *one_by_one(dtype=("fp32",)),
    {"dtype": "fp32", "zero_stage": 0},
    {"dtype": "fp16", "zero_stage": 1},
    # accumulation
    *one_by_one(gradient_accumulation_steps=(4,)),
    {"gradient_accumulation_steps": 4, "identical_micro_batches": True, "dtype": "fp32"},
    {"gradient_accumulation_steps": 4, "gradient_accumulation_dtype": "fp32"},
    {"gradient_accumulation_steps": 4, "zero_stage": 0},
    {"gradient_accumulation_steps": 4, "zero_stage": 1, "gradient_accumulation_dtype": None},
    {"gradient_accumulation_steps": 4, "zero_stage": 1, "gradient_accumulation_dtype": "fp32"},
    {"gradient_accumulation_steps": 4, "zero_stage": 2, "gradient_accumulation_dtype": None},
    {"gradient_accumulation_steps": 4, "zero_stage": 2, "gradient_accumulation_dtype": "fp32"},
    {"gradient_accumulation_steps": 4, "zero_stage": 2, "offload_optimizer": True},
    # the optimizer's side
    *one_by_one(gradient_clipping=(None,), decay_groups=(True,)),
    {"zero_stage": 1, "decay_groups": True, "learning_rate_decay": 0.5},
    # what a micro-batch does
    {"objective": "two_runs", "gradient_checkpointing": "non_reentrant"},
    {"objective": "two_backwards"},
    {"objective": "two_backwards", "zero_stage": 2},
    {"objective": "several_outputs"},
    {"objective": "no_head", "zero_stage": 2},
    {"compile_backend": "eager"},
    # which parameters there are, and which are trained
    {"model": "llama-many"},
    {"frozen": "layers.0"},
    {"lora_rank": 8, "gradient_checkpointing": "non_reentrant"},
    {"lora_rank": 8, "lora_modules_to_save": "lm_head"},
    {"lora_rank": 8, "zero_stage": 2},
    # what happens between healthy steps
    {"infinite_gradient_step": 1},
    {"infinite_gradient_step": 1, "zero_stage": 2},
    {"infinite_gradient_step": 1, "dtype": "fp16"},
    {"infinite_gradient_step": 1, "dtype": "fp16", "zero_stage": 2},
    {"checkpoint": True},
    {"checkpoint": True, "zero_stage": 1},
    {"evaluate": True},
)

TIED: Variants = (
    *_WAYS_OF_CHECKPOINTING,
    *one_by_one(zero_stage=(0, 1, 2), zero_init=(False,), offload_optimizer=(True,), decay_groups=(True,)),
    {"persistence_threshold": "auto"},
    {"gradient_accumulation_steps": 4, "zero_stage": 2, "gradient_accumulation_dtype": "fp32"},
    {"frozen": "embed_tokens"},
    {"lora_rank": 8, "gradient_checkpointing": "non_reentrant"},
    {"checkpoint": True},
)


def family(*, version: int, summary: str, model: str, tiny: str, variants: Variants) -> Scenario:
    """A scenario that trains ``model`` on GPUs and in ``sim`` and ``tiny`` on CPU, under ZeRO-3 unless a variant says
    otherwise. Both are names in ``models.py``."""
    return Scenario(
        version=version,
        summary=summary,
        framework="deepspeed",
        parameters={
            "model": model, "sequence_length": 2048, "micro_batch_size": 1, "world_size": 8, "dtype": "bf16",
            "objective": "next_token", "frozen": "", "lora_rank": 0, "lora_modules_to_save": "",
            "zero_stage": 3, "zero_init": True, "offload_optimizer": False, "offload_param": False,
            "gradient_checkpointing": "none", "gradient_clipping": 1.0, "decay_groups": False, "learning_rate_decay": 1.0,
            "gradient_accumulation_steps": 1, "identical_micro_batches": False, "gradient_accumulation_dtype": None,
            "reduce_bucket_size": "auto", "prefetch_bucket_size": "auto", "persistence_threshold": "auto",
            "max_live_parameters": None, "max_reuse_distance": None, "overlap_comm": None, "hpz_partition_size": None,
            "round_robin_gradients": None, "compile_backend": "none",
            "infinite_gradient_step": None, "checkpoint": False, "evaluate": False,
        },
        devices={
            # A window of live parameters as small against the tiny model as DeepSpeed's default is against a large one.
            "cpu": {"model": tiny, "sequence_length": 64, "micro_batch_size": 2, "world_size": 2,
                    "persistence_threshold": 0, "max_live_parameters": 30_000, "max_reuse_distance": 30_000},
            "sim": {},
            "cuda": {},
        },
        variants=variants,
    )  # fmt: skip
