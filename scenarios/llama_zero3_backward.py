"""Llama under ZeRO-3: forward, backward, step. Small on CPU; Llama-3-8B on GPUs and in `sim`."""

from harness.probe.scenario import Scenario, grid, one_by_one

SCENARIO = Scenario(
    version=1,
    summary="Llama, ZeRO-3, bf16: forward, backward and optimizer step",
    framework="harness.probe.frameworks.deepspeed",
    parameters={
        "model": "llama-3-8b", "sequence_length": 2048, "micro_batch_size": 1, "world_size": 8, "dtype": "bf16",
        "zero_stage": 3, "zero_init": True, "offload_optimizer": False, "gradient_checkpointing": "none",
        "gradient_accumulation_steps": 1, "identical_micro_batches": False, "gradient_accumulation_dtype": None,
        "gradient_clipping": 1.0, "decay_groups": False,
        "reduce_bucket_size": "auto", "prefetch_bucket_size": "auto", "persistence_threshold": "auto",
        "max_live_parameters": None, "max_reuse_distance": None,
    },
    devices={
        # A window of live parameters as small against the tiny model as DeepSpeed's default is against a large one.
        "cpu": {"model": "llama-tiny", "sequence_length": 64, "micro_batch_size": 2, "world_size": 2,
                "persistence_threshold": 0, "max_live_parameters": 30_000, "max_reuse_distance": 30_000},
        "sim": {},
        "cuda": {},
    },
    variants=one_by_one(
        gradient_checkpointing=("none", "reentrant", "non_reentrant"),
        gradient_accumulation_steps=(4,),
        zero_stage=(0, 1, 2),
        zero_init=(False,),
        offload_optimizer=(True,),
        dtype=("fp32",),
        gradient_clipping=(None,),
        decay_groups=(True,),
    )
    + grid(gradient_accumulation_steps=(4,), zero_stage=(1, 2), gradient_accumulation_dtype=(None, "fp32")),
)  # fmt: skip
