"""OpenRLHF#776 and #821, DeepSpeed#7116: PPO of Llama-3-70B, the actor on 4 nodes of 8 A800-80G.

Reported: with DeepSpeed 0.15.0 it trains, with 0.16.* the actor runs out of memory in backward, however many nodes it
gets. The reference model and vLLM ran on other nodes, so the actor's GPUs hold the actor alone. OpenRLHF 0.5.x passes its
DeepSpeed dictionary on with every size "auto", which nothing resolves: DeepSpeed drops them and takes its defaults.

Not known in public, and chosen: the learning rate and the optimizer's other numbers (they change no byte).
"""

from dsregress.probe.scenario import Scenario, one_by_one

SCENARIO = Scenario(
    version=1,
    summary="OpenRLHF, PPO actor: Llama-3-70B, 32 ranks, ZeRO-3, optimizer on the host, packed samples of 1024+1024 tokens",
    framework="deepspeed",
    parameters={
        "model": "llama-3-70b", "objective": "policy_gradient", "gpu": "A800-80G", "world_size": 32, "dtype": "bf16",
        # prompt_max_len 1024 + generate_max_len 1024; micro_train_batch_size 1; train_batch_size 128 over 32 ranks
        "prompt_length": 1024, "sequence_length": 2048, "samples_per_prompt": 4, "packed": True,
        "micro_batch_size": 1, "gradient_accumulation_steps": 4,
        "attention": "sdpa", "gradient_checkpointing": "non_reentrant", "gradient_clipping": 1.0,
        # its DeepSpeed dictionary (adam_offload; its own flag for overlap_comm not set; grad_accum_dtype none)
        "integration": "none", "zero_stage": 3, "zero_init": True, "offload_optimizer": True, "offload_param": False,
        "hpz_partition_size": 1, "gradient_accumulation_dtype": None, "sub_group_size": "auto",
        "max_live_parameters": "auto", "max_reuse_distance": "auto", "persistence_threshold": "auto",
        "prefetch_bucket_size": "auto", "reduce_bucket_size": "auto",
        "expandable_segments": False,
        "old_policy_displacement": None,
    },
    devices={
        "sim": {},
        # Small, with two samples to a pack, and a window of live parameters as small against the model as in the report.
        "cpu": {"model": "llama-tiny", "world_size": 2, "prompt_length": 24, "sequence_length": 48, "micro_batch_size": 2,
                "old_policy_displacement": 1.0,
                "gradient_accumulation_steps": 2, "reduce_bucket_size": 40_000,
                "persistence_threshold": 0, "max_live_parameters": 30_000, "max_reuse_distance": 30_000},
        "cuda": {},
    },
    variants=(
        {},
        *one_by_one(
            gradient_accumulation_steps=(1,),
            gradient_checkpointing=("reentrant",),
            offload_optimizer=(False,),
            offload_param=(True,),
            dtype=("fp16",),
            sequence_length=(1536,),
            hpz_partition_size=(8,),
        ),
    ),
    remedies={
        "reentrant checkpointing": {"gradient_checkpointing": "reentrant"},
        "twice the nodes": {"world_size": 64},
        "four times the nodes": {"world_size": 128},
        "fp16 instead of bf16": {"dtype": "fp16"},
        "a shorter answer (512)": {"sequence_length": 1536},
        "offload the parameters too": {"offload_param": True},
        "ZeRO-3 within a node (hpz 8)": {"hpz_partition_size": 8},
        "one micro-batch to a step": {"gradient_accumulation_steps": 1},
    },
    pins={"pin DeepSpeed 0.15.0": {"deepspeed": "0.15.0"}},
)  # fmt: skip
