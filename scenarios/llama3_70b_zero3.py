"""The case this project began with: Llama-3-70B on 32 ranks, ZeRO-3, non-reentrant gradient checkpointing.

OpenRLHF#776, DeepSpeed#7116: with 0.15.0 it trains, with 0.16.* memory grows in backward until an 80 GB card is full.
"""

from harness.probe.scenario import Scenario, one_by_one

SCENARIO = Scenario(
    version=1,
    summary="Llama-3-70B, 32 ranks, ZeRO-3, bf16, sequence 2048: forward, backward and optimizer step",
    framework="harness.probe.frameworks.deepspeed",
    parameters={
        "model": "llama-3-70b", "sequence_length": 2048, "micro_batch_size": 1, "world_size": 32, "dtype": "bf16",
        "zero_stage": 3, "zero_init": True, "offload_optimizer": False, "offload_param": False,
        "gradient_checkpointing": "non_reentrant", "attention": "sdpa", "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0, "gpu": "A800-80G",
        "reduce_bucket_size": "auto", "prefetch_bucket_size": "auto", "persistence_threshold": "auto",
        "expandable_segments": False,
    },
    devices={"sim": {}, "cuda": {}},
    variants=one_by_one(gradient_checkpointing=("non_reentrant", "reentrant"), offload_optimizer=(True,)),
)  # fmt: skip
