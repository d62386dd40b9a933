"""TRL#3172: GRPO of Qwen2.5-7B with LoRA under ZeRO-3 on one node of 8 H100-80G, 4 of which serve generation.

Reported: out of memory with num_processes 8; remedies named there: 4 processes, gradient checkpointing, separate GPUs for
serving and training. Four processes are no remedy of their own here: each of 8 ranks holds less than each of
4, and beside an engine (``gpu_memory_utilization``) what helps is to serve elsewhere. The script loaded the model with
``.to("cuda")`` on every rank before the trainer existed: each rank held a whole copy first (``zero_init`` false,
``load_on_device`` true), here on its own card. accelerate's YAML writes the DeepSpeed configuration, with DeepSpeed's own
defaults for all sizes.

Not known in public, and chosen: lengths of 512 + 256 tokens and 8 samples per device, TRL's defaults of that day. TRL's
own trainer is no small dependency: its loss is the project's
(`dsregress.probe.workloads.alignment.group_policy_gradient`), with the reference taken from the same model with its
adapters disabled, and logits for the answers only. ``gpu_memory_utilization`` is the share of an engine on the same card.
"""

from dsregress.probe.scenario import Scenario, grid, one_by_one

SCENARIO = Scenario(
    version=1,
    summary="TRL, GRPO: Qwen2.5-7B with LoRA, ZeRO-3 as accelerate configures it, 8 ranks",
    framework="deepspeed",
    parameters={
        "model": "qwen2.5-7b", "objective": "group_policy_gradient", "gpu": "H100-80G", "world_size": 8, "dtype": "bf16",
        "prompt_length": 512, "sequence_length": 768, "samples_per_prompt": 8, "micro_batch_size": 8,
        "gradient_accumulation_steps": 1, "attention": "sdpa", "gradient_checkpointing": "none", "gradient_clipping": 1.0,
        "lora_rank": 16, "lora_alpha": 32, "lora_dropout": 0.05,
        "lora_targets": "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj", "lora_modules_to_save": "",
        "integration": "accelerate", "zero_stage": 3, "zero_init": False, "load_on_device": True,
        "offload_optimizer": False, "offload_param": False, "persistence_threshold": None, "max_live_parameters": None,
        "max_reuse_distance": None, "reduce_bucket_size": None, "expandable_segments": False,
        "old_policy_displacement": None, "gpu_memory_utilization": 0.0,
    },
    devices={
        "sim": {},
        # Without dropout, which is random: then there is a truth to compare with.
        "cpu": {"model": "qwen2-tiny", "world_size": 2, "prompt_length": 24, "sequence_length": 48, "micro_batch_size": 2,
                "old_policy_displacement": 1.0,
                "samples_per_prompt": 2, "lora_rank": 4, "lora_dropout": 0.0, "reduce_bucket_size": 40_000,
                "persistence_threshold": 0, "max_live_parameters": 30_000, "max_reuse_distance": 30_000},
        "cuda": {},
    },
    variants=(
        {},
        *one_by_one(
            world_size=(4,),
            gradient_checkpointing=("reentrant", "non_reentrant"),
            lora_modules_to_save=("lm_head",),
            expandable_segments=(True,),
            gpu_memory_utilization=(0.9,),
        ),
        *grid(zero_init=(True,), load_on_device=(False,), gradient_checkpointing=("none", "non_reentrant")),
    ),
    remedies={
        "non-reentrant checkpointing": {"gradient_checkpointing": "non_reentrant"},
        "reentrant checkpointing": {"gradient_checkpointing": "reentrant"},
        "load under zero.Init": {"zero_init": True, "load_on_device": False},
        "half the samples per device": {"micro_batch_size": 4},
        "expandable segments": {"expandable_segments": True},
        "serve on other GPUs": {"gpu_memory_utilization": 0.0},
    },
)  # fmt: skip
