"""The DeepSpeed configuration that a scenario's parameters describe."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from dsregress.probe.factor import Configured
from dsregress.probe.factors import deepspeed_configuration, factor_values


@dataclasses.dataclass(frozen=True)
class Sharding:
    """The part of a scenario's parameters that is DeepSpeed's. None leaves the framework's default in force; "auto" is
    resolved by the ``integration`` (`dsregress.probe.frameworks.integrations`)."""

    zero_stage: int = 3
    integration: str = "transformers"  #: the library that completes the configuration: transformers, accelerate or none
    zero_init: bool = True  #: build the model under zero.Init, through transformers, as from_pretrained does
    gradient_accumulation_dtype: str | None = None
    gather_16bit_weights: bool | None = None  #: when a checkpoint is saved
    torch_autocast: bool = False  #: fp32 weights, computed with in the dtype by torch's own autocast
    optimizer: str = "passed"  #: to ``initialize``; or "configured": named in the configuration
    load_on_device: bool = False  #: the whole model goes to the accelerator before DeepSpeed sees it
    compile_backend: str = "none"  #: of torch.compile
    loss_scale_power: int = 8  #: the first loss scale of fp16 is two to this


def deepspeed_config(parameters: Mapping[str, object], hidden_size: int) -> dict[str, Any]:
    """Return the configuration that ``deepspeed.initialize`` gets."""
    from dsregress.probe.frameworks import integrations
    from dsregress.probe.workloads.workload import Workload, adam, pick

    work, shard = pick(Workload, parameters), pick(Sharding, parameters)
    base = {
        "train_micro_batch_size_per_gpu": work.micro_batch_size,
        "gradient_accumulation_steps": 1,
        "zero_optimization": {},
        "bf16": {"enabled": False},
        "zero_allow_untested_optimizer": True,
        # The passed optimizer stays in use, also under offload: DeepSpeed's own is a C++ extension to be compiled.
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 2**31,
    }
    if shard.zero_stage == 3 and shard.gather_16bit_weights is not None:
        base["zero_optimization"] = {"stage3_gather_16bit_weights_on_model_save": shard.gather_16bit_weights}
    job = Configured(
        values=factor_values(parameters),
        optimizer={"type": "AdamW", "params": {**adam(work), "torch_adam": True}},
        learning_rate=work.learning_rate,
        pins_memory=True,
        loss_scale_power=shard.loss_scale_power,
    )
    settings = deepspeed_configuration(job, base)
    return integrations.complete_settings(
        settings, shard.integration, hidden_size=hidden_size, world_size=work.world_size, work=work
    )


def autocasts(work: Any, shard: Sharding) -> bool:
    """Return True if weights in fp32 are computed with in the workload's dtype, by DeepSpeed's autocast or the caller's."""
    return bool(shard.torch_autocast or work.caller_autocast)


def of_frozen(parameters: Mapping[str, object]) -> dict[str, Any]:
    """Return the parameters of a model that is only evaluated: in stage 3 if training is, and otherwise whole on every
    rank (stage 0), as in OpenRLHF's evaluation configuration and TRL's ``prepare_deepspeed``; it has no optimizer to
    offload."""
    return {
        **parameters,
        "zero_stage": 3 if parameters.get("zero_stage", 3) == 3 else 0,
        "offload_optimizer": False,
        "gradient_accumulation_dtype": None,
        "hpz_partition_size": None,
    }


def of_next_job(settings: Mapping[str, object], *, universal: bool) -> dict[str, Any]:
    """Return the configuration of the job that resumes from a checkpoint. Only that one names the universal kind: an
    engine that is configured to load it also saves differently."""
    return {**settings, "checkpoint": {"load_universal": True}} if universal else dict(settings)


def effective_zero(zero: Mapping[str, object]) -> dict[str, Any]:
    """Return ``zero_optimization`` without what DeepSpeed ignores: an unresolved ``auto``, and offload to ``none``."""
    return {
        name: value
        for name, value in zero.items()
        if value != "auto" and not (isinstance(value, dict) and value.get("device") == "none")
    }
