"""LoRA by peft itself, as TRL and LLaMA-Factory apply it: adapters at linear layers, everything else frozen.

The method: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021 (arXiv:2106.09685).
"""

from __future__ import annotations

import torch

from dsregress.probe.workloads.workload_parameters import AdapterParameters


def with_adapters(model: torch.nn.Module, adapters: AdapterParameters) -> torch.nn.Module:
    """Return the model wrapped by peft, in training mode. ``lora_autocast`` is peft's ``autocast_adapter_dtype``. If
    checkpointing needs inputs that require gradients, peft provides them."""
    import peft

    settings = peft.LoraConfig(
        r=adapters.lora_rank,
        lora_alpha=adapters.lora_alpha,
        lora_dropout=adapters.lora_dropout,
        target_modules=adapters.lora_targets.split(),
        modules_to_save=adapters.lora_modules_to_save.split() or None,
        task_type="CAUSAL_LM",
    )
    # In fp32, peft's default, DeepSpeed refuses the model if zero.Init made part of it.
    wrapped: torch.nn.Module = peft.get_peft_model(model, settings, autocast_adapter_dtype=adapters.lora_autocast)
    wrapped.train()
    return wrapped
