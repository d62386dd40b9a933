"""Rules on factors: values that require values of other factors, because they cannot be configured otherwise. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dsregress.reproduce.factors import BY_NAME, among


class Requirement(msgspec.Struct, frozen=True):
    """Values of one factor that require values of another."""

    name: str
    values: tuple[Any, ...]
    other: str
    needed: tuple[Any, ...]

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Return True if a row of parameters satisfies the rule. A row without the factor does: a job by Trainer has no
        model outputs."""
        if self.name not in row or not among(row[self.name], self.values):
            return True
        return among(BY_NAME[self.other].value_in(row), self.needed)


#: By DeepSpeed's own checks of a configuration, and by what the workload computes.
REQUIREMENTS = (
    Requirement("zero_init", (True,), "zero_stage", (3,)),
    Requirement("offload_param", (True,), "zero_stage", (3,)),
    Requirement("persistence_threshold", (100_000,), "zero_stage", (3,)),
    Requirement("offload_optimizer", (True,), "zero_stage", (1, 2, 3)),
    Requirement("hpz_partition_size", (2,), "zero_stage", (3,)),
    Requirement("hpz_partition_size", (2,), "world_size", (2,)),  # three ranks have no groups of two
    Requirement("round_robin_gradients", (True,), "zero_stage", (1, 2)),
    Requirement("overlap_comm", (False, True), "zero_stage", (1, 2, 3)),
    Requirement("gradient_accumulation_dtype", ("fp32",), "dtype", ("bf16", "fp32")),
    Requirement("identical_micro_batches", (True,), "gradient_accumulation_steps", (2, 4)),
    Requirement("identical_micro_batches", (True,), "varying_length", (False,)),
    Requirement("model_outputs", ("loss",), "objective", ("next_token", "two_runs", "two_backwards")),
    Requirement("lora_modules_to_save", ("lm_head",), "lora_rank", (8,)),
    Requirement("lora_modules_to_save", ("lm_head",), "model", ("llama-tiny",)),
    Requirement("lora_rank", (8,), "frozen", ("",)),
    Requirement("checkpoint", (True,), "infinite_gradient_step", (None,)),
    Requirement("resume", (True,), "checkpoint", (True,)),
    Requirement("evaluate_within", (True,), "gradient_accumulation_steps", (2, 4)),
    Requirement("identical_micro_batches", (True,), "uneven_last", (False,)),
    Requirement("no_sync", (True,), "gradient_accumulation_steps", (2, 4)),
    Requirement("no_sync", (True,), "zero_stage", (0, 1)),
    Requirement("backward_on", ("several",), "dtype", ("fp32", "bf16")),
    Requirement("backward_on", ("divided",), "gradient_accumulation_steps", (2, 4)),
    Requirement("backward_on", ("divided",), "no_sync", (False,)),
    Requirement("backward_on", ("divided",), "marks_boundary", (False,)),
    Requirement("optimizer", ("configured",), "offload_optimizer", (False,)),
    Requirement("optimizer", ("configured",), "integration", ("none",)),
    Requirement("leaf_modules", (True,), "zero_stage", (3,)),
    Requirement("leaf_modules", (True,), "lora_rank", (0,)),
    Requirement("leaf_modules", (True,), "frozen", ("", "layers.0")),
    Requirement("prescale_gradients", (True,), "zero_stage", (0, 1)),  # 2 without reduce_scatter alone
    Requirement("all_reduce_for_fetch", (True,), "zero_stage", (3,)),
    Requirement("memory_efficient_linear", (False,), "zero_stage", (3,)),
    Requirement("sub_group_size", (20_000,), "zero_stage", (3,)),
    Requirement("contiguous_gradients", (False,), "zero_stage", (1, 2, 3)),
    Requirement("reduce_scatter", (False,), "zero_stage", (1, 2, 3)),
    Requirement("allgather_partitions", (False,), "zero_stage", (1, 2)),
    Requirement("allgather_bucket_size", (4096,), "zero_stage", (1, 2)),
    Requirement("multi_rank_bucket_allreduce", (False,), "zero_stage", (1, 2)),
    Requirement("loss_scale", (256,), "dtype", ("fp16",)),
    Requirement("loss_scale", (256,), "torch_autocast", (False,)),
    Requirement("torch_autocast", (True,), "dtype", ("bf16", "fp16")),
    Requirement("torch_autocast", (True,), "zero_init", (False,)),
    Requirement("torch_autocast", (True,), "gradient_accumulation_dtype", (None,)),
    Requirement("torch_autocast", (True,), "integration", ("none",)),
    Requirement("lora_autocast", (True,), "lora_rank", (8,)),
    Requirement("lora_autocast", (True,), "dtype", ("bf16", "fp16")),
    Requirement("warmup", (True,), "integration", ("none",)),
    Requirement("warmup", (True,), "learning_rate_decay", (1.0,)),
    Requirement("schedule", ("WarmupDecayLR", "WarmupCosineLR"), "integration", ("none",)),
    Requirement("schedule", ("WarmupDecayLR", "WarmupCosineLR"), "learning_rate_decay", (1.0,)),
    Requirement("schedule", ("WarmupDecayLR", "WarmupCosineLR"), "warmup", (False,)),
    Requirement("schedule", ("WarmupDecayLR",), "group_learning_rates", (False,)),
    Requirement("group_learning_rates", (True,), "decay_groups", (True,)),
    Requirement("group_learning_rates", (True,), "frozen", ("",)),
    Requirement("group_learning_rates", (True,), "lora_rank", (0,)),
    Requirement("marks_boundary", (True,), "gradient_accumulation_steps", (2, 4)),
    Requirement("marks_boundary", (True,), "no_sync", (False,)),
    Requirement("gather_weights", (True,), "zero_stage", (3,)),
    Requirement("empty_cache", (True,), "zero_stage", (3,)),
    Requirement("unwrapped", (True,), "zero_stage", (3,)),
    Requirement("caller_autocast", (True,), "dtype", ("bf16",)),
    Requirement("caller_autocast", (True,), "torch_autocast", (False,)),
    Requirement("caller_autocast", (True,), "zero_init", (False,)),
    Requirement("caller_autocast", (True,), "gradient_accumulation_dtype", (None,)),
    Requirement("caller_autocast", (True,), "integration", ("none",)),
    Requirement("halved_gradients", ("full",), "zero_stage", (1, 2, 3)),
    Requirement("halved_gradients", ("local",), "zero_stage", (3,)),
    Requirement("halved_gradients", ("full", "local"), "infinite_gradient_step", (None,)),
    Requirement("grouped_frozen", (True,), "frozen", ("layers.0", "embed_tokens")),
    Requirement("uneven_ranks", (True,), "world_size", (2, 3)),
    Requirement("universal", (True,), "resume", (True,)),
    Requirement("universal", (True,), "zero_stage", (1, 2, 3)),
    Requirement("exported", ("zero_to_fp32",), "zero_stage", (1, 2, 3)),
    Requirement("leaf_modules", (True,), "model", ("llama-tiny", "qwen2-tiny", "llama-many")),
)


def is_valid(parameters: Mapping[str, Any]) -> bool:
    """Return True if the parameters satisfy all rules."""
    return all(rule.holds(parameters) for rule in REQUIREMENTS)
