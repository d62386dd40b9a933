"""LLaMA-Factory: DPO on 8 V100-32G, with its own ``ds_z3_config.json``.

Reported: out of memory, one card with 23.51 GB allocated, 5.51 GB reserved but unallocated and 1.41 GB free of 31.74.
Remedies named: bf16 over fp16 (a V100 has no bf16 units), cutoff_len 4096 -> 2048, smaller batches and other
accumulation, expandable_segments, torch.compile, ZeRO-3, offload of parameters and optimizer.

``roles=policy+reference`` is full DPO with a separate reference model; with ``lora_rank`` and ``roles=policy`` the
reference is the policy with its adapters disabled, run between the policy's forward and its backward. transformers'
integration resolves "auto". A V100 has no flash attention: in fp16 torch takes the memory-efficient kernel, which holds as
much.

The report's model is Qwen2-VL-7B-Instruct, which `llamafactory_qwen2_vl_dpo` trains by LLaMA-Factory's own code; here it is
Qwen2.5-7B, on text alone. Not known in public, and chosen: prompts of 512 tokens, accumulation 1, LoRA of LLaMA-Factory's
defaults (rank 8, alpha 16, all linear layers). The loss is the project's own, `dpo_loss` in
`dsregress.probe.workloads.preference_losses`.
"""

from dsregress.probe.scenario import Scenario, one_by_one

#: ``ds_z2_config.json`` where it differs.
_Z2 = {
    "zero_stage": 2, "reduce_bucket_size": 500_000_000, "allgather_bucket_size": 500_000_000,
    "reduce_scatter": True, "round_robin_gradients": True,
}  # fmt: skip
_LORA = {"roles": "policy", "lora_rank": 8}
_OFFLOAD = {"offload_optimizer": True, "offload_param": True, "frozen_offload_param": True}
_COMPILED = {"compile_backend": "inductor"}

SCENARIO = Scenario(
    version=1,
    summary="LLaMA-Factory, DPO: Qwen2.5-7B and its reference, ZeRO-3, fp16, 8 ranks, cutoff_len 4096",
    framework="deepspeed_jobs",
    parameters={
        "model": "qwen2.5-7b", "job": "preference", "roles": "policy+reference", "gpu": "V100-32G", "world_size": 8,
        "dtype": "fp16", "loss_scale_power": 16,
        "sequence_length": 4096, "prompt_length": 512, "micro_batch_size": 1, "gradient_accumulation_steps": 1,
        "attention": "sdpa", "gradient_checkpointing": "reentrant", "gradient_clipping": 1.0,
        "lora_rank": 0, "lora_alpha": 16, "lora_dropout": 0.0,
        "integration": "transformers", "zero_stage": 3, "zero_init": True, "offload_optimizer": False,
        "offload_param": False, "frozen_offload_param": False, "overlap_comm": False, "contiguous_gradients": True,
        "sub_group_size": 1_000_000_000, "reduce_bucket_size": "auto", "prefetch_bucket_size": "auto",
        "persistence_threshold": "auto", "max_live_parameters": 1_000_000_000, "max_reuse_distance": 1_000_000_000,
        "gather_16bit_weights": True, "allgather_bucket_size": None, "reduce_scatter": None,
        "round_robin_gradients": None, "expandable_segments": False, "compile_backend": "none",
    },
    devices={
        "sim": {},
        # bf16 unless a variant says otherwise: a CPU that trains in fp16 is the exception. The loss scale of the report
        # would overflow on a model this small, and the first steps would be skipped.
        "cpu": {"model": "qwen2-tiny", "world_size": 2, "sequence_length": 48, "prompt_length": 16, "dtype": "bf16",
                "loss_scale_power": 8, "persistence_threshold": 0, "max_live_parameters": 30_000,
                "max_reuse_distance": 30_000},
        "cuda": {},
    },
    variants=(
        {}, _LORA, _Z2, {**_LORA, **_Z2}, _OFFLOAD, _COMPILED, {**_LORA, **_COMPILED},
        *one_by_one(
            sequence_length=(2048,),
            dtype=("bf16", "fp16"),
            gradient_checkpointing=("non_reentrant",),
            expandable_segments=(True,),
            offload_optimizer=(True,),
        ),
        {**_LORA, "gradient_checkpointing": "non_reentrant"},
    ),
    remedies={
        "bf16 over fp16": {"dtype": "bf16"},
        "cutoff_len 2048": {"sequence_length": 2048},
        "expandable segments": {"expandable_segments": True},
        "torch.compile": _COMPILED,
        "offload the optimizer": {"offload_optimizer": True},
        "offload parameters and optimizer": _OFFLOAD,
        "LoRA, the reference without adapters": _LORA,
        "non-reentrant checkpointing": {"gradient_checkpointing": "non_reentrant"},
        "accumulation 4": {"gradient_accumulation_steps": 4},
    },
)  # fmt: skip
