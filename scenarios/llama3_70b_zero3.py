"""The case this project began with: Llama-3-70B on 32 ranks, ZeRO-3, non-reentrant gradient checkpointing.

OpenRLHF#776, DeepSpeed#7116: with 0.15.0 it trains, with 0.16.* memory grows in backward until an 80 GB card is full.
"""

from dsregress.probe.scenario import Scenario, one_by_one

SCENARIO = Scenario(
    version=1,
    summary="Llama-3-70B, 32 ranks, ZeRO-3, bf16, sequence 2048: forward, backward and optimizer step",
    framework="deepspeed",
    parameters={
        "model": "llama-3-70b", "sequence_length": 2048, "micro_batch_size": 1, "world_size": 32, "dtype": "bf16",
        "zero_stage": 3, "zero_init": True, "offload_optimizer": False, "offload_param": False,
        "gradient_checkpointing": "non_reentrant", "attention": "sdpa", "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0, "gpu": "A800-80G",
        "reduce_bucket_size": "auto", "prefetch_bucket_size": "auto", "persistence_threshold": "auto",
        "max_live_parameters": 1_000_000_000, "max_reuse_distance": 1_000_000_000, "hpz_partition_size": 1,
        "expandable_segments": False,
    },
    devices={"sim": {}, "cuda": {}},
    variants=one_by_one(gradient_checkpointing=("non_reentrant", "reentrant"), offload_optimizer=(True,)),
    remedies={
        "offload the optimizer": {"offload_optimizer": True},
        "offload the parameters": {"offload_param": True},
        "offload both": {"offload_optimizer": True, "offload_param": True},
        "reentrant checkpointing": {"gradient_checkpointing": "reentrant"},
        "a shorter sequence (1024)": {"sequence_length": 1024},
        "fp16 instead of bf16": {"dtype": "fp16"},
        "fewer live parameters": {"max_live_parameters": 100_000_000, "max_reuse_distance": 100_000_000},
        "no prefetch": {"prefetch_bucket_size": 0},
        "small reduce buckets": {"reduce_bucket_size": 10_000_000},
        "twice the ranks": {"world_size": 64},
        "half the ranks": {"world_size": 16},
        "expandable segments": {"expandable_segments": True},
    },
    pins={"pin DeepSpeed 0.15.0": {"deepspeed": "0.15.0"}},
)  # fmt: skip
