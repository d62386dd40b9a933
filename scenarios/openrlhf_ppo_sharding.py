"""OpenRLHF#373: how PPO's actor is split over its GPUs, and what each way of splitting costs.

The question: ZeRO-2 shards optimizer states and gradients and leaves whole parameters on every GPU, ZeRO-3 shards the
parameters too; what does a GPU hold then, as the actor gets 2 to 32 of them, what does accumulation buy, and what does
ZeRO-3 within a node (hpz) cost and save? Pins of that day: DeepSpeed 0.14.4, transformers 4.42.4.

Not known in public, and chosen: the model (Llama-3-8B, that of OpenRLHF's examples of the time), lengths of 1024 + 1024
and a micro-batch of 1 as in the actor of the 70B report, no optimizer offload.
"""

from dsregress.probe.scenario import Scenario, grid

SCENARIO = Scenario(
    version=1,
    summary="OpenRLHF, PPO actor: Llama-3-8B under ZeRO 0-3 and hpz, 2 to 32 GPUs, accumulation 1 to 16",
    framework="deepspeed",
    parameters={
        "model": "llama-3-8b", "objective": "policy_gradient", "gpu": "A100-80G", "world_size": 8, "dtype": "bf16",
        "prompt_length": 1024, "sequence_length": 2048, "samples_per_prompt": 4, "packed": True,
        "micro_batch_size": 1, "gradient_accumulation_steps": 1,
        "attention": "sdpa", "gradient_checkpointing": "non_reentrant", "gradient_clipping": 1.0,
        "integration": "none", "zero_stage": 3, "zero_init": True, "offload_optimizer": False, "offload_param": False,
        "hpz_partition_size": 1, "gradient_accumulation_dtype": None, "sub_group_size": "auto",
        "max_live_parameters": "auto", "max_reuse_distance": "auto", "persistence_threshold": "auto",
        "prefetch_bucket_size": "auto", "reduce_bucket_size": "auto", "contiguous_gradients": None,
        "expandable_segments": False,
        "old_policy_displacement": None,
    },
    devices={
        "sim": {},
        "cpu": {"model": "llama-tiny", "world_size": 2, "prompt_length": 24, "sequence_length": 48,
                "old_policy_displacement": 1.0,
                "reduce_bucket_size": 40_000,
                "persistence_threshold": 0, "max_live_parameters": 30_000, "max_reuse_distance": 30_000},
        "cuda": {},
    },
    variants=grid(zero_stage=(0, 1, 2, 3), gradient_accumulation_steps=(1, 4, 16))
    + grid(zero_stage=(3,), hpz_partition_size=(2, 8))
    + grid(zero_stage=(2, 3), offload_optimizer=(True,)),
    remedies={
        "ZeRO-1": {"zero_stage": 1},
        "ZeRO-2": {"zero_stage": 2},
        "ZeRO-3 within a node (hpz 8)": {"hpz_partition_size": 8},
        "accumulation 16": {"gradient_accumulation_steps": 16},
        "offload the optimizer": {"offload_optimizer": True},
        "twice the GPUs": {"world_size": 16},
    },
)  # fmt: skip
