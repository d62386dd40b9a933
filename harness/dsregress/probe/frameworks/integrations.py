"""Completes a DeepSpeed configuration by transformers' Trainer, by accelerate, or not at all.

A configuration has ``auto`` for values that the library around DeepSpeed fills in. That library's own code does so here,
at the version that the stack pins, so a release that resolves a value differently shows as another configuration. If
nothing resolves it (OpenRLHF passes its dictionary on unchanged), ``auto`` reaches DeepSpeed, which drops it and uses
its own default.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Mapping
from typing import Any

from dsregress.probe.choices import CHOICES
from vgpu.replacing import Patches

#: Values of a scenario's parameter ``integration``.
INTEGRATIONS = CHOICES["integration"]


def complete_settings(
    settings: Mapping[str, object], integration: str, *, hidden_size: int, world_size: int, work: object
) -> dict[str, Any]:
    """Return a new dictionary for ``deepspeed.initialize``. ``work`` is a `dsregress.probe.workloads.workload.Workload`.

    Raise ValueError for an unknown integration.
    """
    if integration == "none":
        return copy.deepcopy(dict(settings))
    if integration == "transformers":
        return _by_transformers(settings, hidden_size, world_size, work)
    if integration == "accelerate":
        return _by_accelerate(settings, hidden_size, world_size, work)
    raise ValueError(f"no such integration: {integration} (known: {', '.join(INTEGRATIONS)})")


def _by_transformers(
    settings: Mapping[str, object], hidden_size: int, world_size: int, work: object
) -> dict[str, object]:
    """Complete the settings like ``Trainer(args=TrainingArguments(deepspeed=...))``: once from the arguments, once from
    the model."""
    from transformers.integrations import deepspeed as integration

    with Patches("a configuration makes itself the one that models obey") as patches:
        patches.replace(integration, "_hf_deepspeed_config_weak_ref", integration._hf_deepspeed_config_weak_ref)
        held = integration.HfTrainerDeepSpeedConfig(copy.deepcopy(dict(settings)))
    arguments = _training_arguments(world_size, work)
    held.trainer_config_process(arguments)
    model = types.SimpleNamespace(config=types.SimpleNamespace(hidden_size=hidden_size))
    held.trainer_config_finalize(arguments, model, num_training_steps=1)
    config: dict[str, Any] = held.config
    return config


def _training_arguments(world_size: int, work: Any) -> object:
    """Return the part of transformers.TrainingArguments that the integration reads, with the workload's values. Not the
    class itself: its constructor starts devices and process groups."""
    from dsregress.probe.workloads.workload import ADAM_BETAS, ADAM_EPSILON

    return types.SimpleNamespace(
        world_size=world_size,
        per_device_train_batch_size=work.micro_batch_size,
        gradient_accumulation_steps=work.gradient_accumulation_steps,
        max_grad_norm=work.gradient_clipping if work.gradient_clipping is not None else 0.0,
        learning_rate=work.learning_rate,
        adam_beta1=ADAM_BETAS[0],
        adam_beta2=ADAM_BETAS[1],
        adam_epsilon=ADAM_EPSILON,
        weight_decay=work.weight_decay,
        fp16=work.dtype == "fp16",
        fp16_full_eval=False,
        fp16_backend="auto",
        fp16_opt_level="O1",
        bf16=work.dtype == "bf16",
        bf16_full_eval=False,
        save_on_each_node=False,
        get_warmup_steps=lambda steps: 0,
    )


def _by_accelerate(settings: Mapping[str, Any], hidden_size: int, world_size: int, work: Any) -> dict[str, object]:
    """Complete the settings like ``accelerate launch`` with a DeepSpeed section in its YAML and no DeepSpeed file: the
    plugin writes the configuration, and `Accelerator.prepare` fills in what follows from the batches and the model.
    Entries of ``settings`` beyond the plugin's own fields are added, since nothing that a user sets may be lost."""
    from accelerate.utils import DeepSpeedPlugin

    zero = settings["zero_optimization"]
    plugin = DeepSpeedPlugin(
        gradient_accumulation_steps=work.gradient_accumulation_steps,
        gradient_clipping=work.gradient_clipping if work.gradient_clipping is not None else "auto",
        zero_stage=zero["stage"],
        offload_optimizer_device=zero.get("offload_optimizer", {}).get("device", "none"),
        offload_param_device=zero.get("offload_param", {}).get("device", "none"),
        zero3_init_flag=zero["stage"] == 3,
        zero3_save_16bit_model=zero["stage"] == 3,
    )
    plugin.set_mixed_precision({"fp32": "no"}.get(work.dtype, work.dtype))
    config: dict[str, Any] = plugin.deepspeed_config
    written = set(config["zero_optimization"])
    config["zero_optimization"].update({name: value for name, value in zero.items() if name not in written})
    filled = {
        "train_micro_batch_size_per_gpu": work.micro_batch_size,
        "train_batch_size": work.micro_batch_size * work.gradient_accumulation_steps * world_size,
        "gradient_clipping": work.gradient_clipping if work.gradient_clipping is not None else 1.0,
        "zero_optimization.reduce_bucket_size": hidden_size * hidden_size,
        "zero_optimization.stage3_prefetch_bucket_size": int(0.9 * hidden_size * hidden_size),
        "zero_optimization.stage3_param_persistence_threshold": 10 * hidden_size,
    }
    plugin.deepspeed_config_process(must_match=False, **filled)
    for name in ("zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "steps_per_print", "data_types"):
        if name in settings:
            config[name] = settings[name]
    return config
