"""The least there is to training: everything that can be left out is left out, so that a variant names all that it has.

`dsregress reproduce` sets a finding's parameters back to these one by one, to learn which of them it needs. Where it
asks about memory, work or a crash, plain PyTorch's training is left out (``judged``), which is half of a cell's time.
Clipping is off, and nothing completes the configuration. Buckets, and the window of live parameters in stage 3, are as
small against the tiny model as DeepSpeed's defaults are against a large one.
"""

from dsregress.probe.scenario import Scenario

SCENARIO = Scenario(
    version=1,
    summary="Llama, one rank, fp32, ZeRO-0: nothing configured that can be left out",
    framework="deepspeed",
    parameters={
        "model": "llama-tiny", "sequence_length": 64, "micro_batch_size": 2, "world_size": 1, "dtype": "fp32",
        "objective": "next_token", "model_outputs": "loss", "frozen": "", "lora_rank": 0, "lora_modules_to_save": "",
        "lora_autocast": False, "empty_groups": False,
        "integration": "none", "zero_stage": 0, "zero_init": False, "offload_optimizer": False, "offload_param": False,
        "gradient_checkpointing": "none", "gradient_clipping": 0.0, "decay_groups": False, "learning_rate_decay": 1.0,
        "gradient_accumulation_steps": 1, "identical_micro_batches": False, "gradient_accumulation_dtype": None,
        "reduce_bucket_size": 4096, "prefetch_bucket_size": None, "persistence_threshold": 0,
        "max_live_parameters": 30_000, "max_reuse_distance": 30_000, "overlap_comm": None, "hpz_partition_size": None,
        "round_robin_gradients": None, "compile_backend": "none",
        "infinite_gradient_step": None, "checkpoint": False, "evaluate": False, "forward_between": False,
        "varying_length": False, "uneven_last": False, "evaluate_within": False, "resume": False, "no_sync": False,
        "backward_on": "engine", "second_engine": False, "destroyed_engine": False, "marks_boundary": False,
        "gather_weights": False, "empty_cache": False, "module_hooks": False, "uneven_ranks": False, "universal": False,
        "exported": "", "group_learning_rates": False, "warmup": False, "allgather_bucket_size": None,
        "multi_rank_bucket_allreduce": None, "loss_scale": None,
        "zero_grad": False, "unwrapped": False, "grouped_frozen": False,
        "schedule": None, "reference": "", "halved_gradients": "", "caller_autocast": False,
        "torch_autocast": False, "contiguous_gradients": None,
        "reduce_scatter": None, "sub_group_size": None, "allgather_partitions": None, "all_reduce_for_fetch": None,
        "memory_efficient_linear": None, "communication_dtype": None, "prescale_gradients": None,
        "optimizer": "passed", "leaf_modules": False, "judged": True,
    },
    devices={"cpu": {}},
    variants=(
        {},
        # What other scenarios leave out so that the rest of a job can be measured, as users have it: an empty parameter
        # group with a schedule of torch's, and adapters in peft's default dtype beside weights in half precision.
        {"lora_rank": 8, "zero_stage": 2, "decay_groups": True, "empty_groups": True, "learning_rate_decay": 0.5},
        {"lora_rank": 8, "zero_stage": 3, "dtype": "bf16", "lora_autocast": True},
        {"lora_rank": 8, "zero_stage": 3, "dtype": "bf16", "lora_autocast": True, "zero_init": True},
    ),
)  # fmt: skip
