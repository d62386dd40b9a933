"""Fine-tuning with transformers' own Trainer over ZeRO-3: its loop, accelerate's integration, "auto" sizes."""

from dsregress.probe.scenario import Scenario, one_by_one

SCENARIO = Scenario(
    version=1,
    summary="Qwen, transformers' Trainer, ZeRO-3, bf16: supervised fine-tuning with accumulation",
    framework="trainer",
    parameters={
        "model": "qwen2.5-1.5b", "sequence_length": 1024, "micro_batch_size": 1, "world_size": 4, "dtype": "bf16",
        "zero_stage": 3, "zero_init": True, "offload_optimizer": False, "gradient_checkpointing": "none",
        "gradient_accumulation_steps": 4, "objective": "fine_tuning", "gradient_clipping": 1.0,
        "weight_decay": 0.0, "decay_groups": True,
        "reduce_bucket_size": "auto", "prefetch_bucket_size": "auto", "persistence_threshold": "auto",
    },
    devices={
        "cpu": {"model": "qwen2-tiny", "sequence_length": 64, "micro_batch_size": 2, "world_size": 2,
                "persistence_threshold": 0},
        "cuda": {},
    },
    variants=(
        {},
        *one_by_one(
            objective=("uneven_fine_tuning",),
            gradient_accumulation_steps=(1,),
            zero_stage=(1, 2),
            gradient_checkpointing=("reentrant", "non_reentrant"),
            gradient_clipping=(None,),
            weight_decay=(0.1,),
        ),
    ),
)  # fmt: skip
