"""LoRA by peft itself, as TRL and LLaMA-Factory apply it: adapters beside linear layers, everything else frozen.

The method: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021 (arXiv:2106.09685).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from harness.probe.workloads.workload import Workload


def adapted(work: Workload, model: torch.nn.Module) -> torch.nn.Module:
    """The model wrapped by peft. Inputs are made to require gradients by peft, where checkpointing needs that."""
    import peft

    settings = peft.LoraConfig(
        r=work.lora_rank,
        lora_alpha=work.lora_alpha,
        lora_dropout=work.lora_dropout,
        target_modules=work.lora_targets.split(),
        modules_to_save=work.lora_modules_to_save.split() or None,
        task_type="CAUSAL_LM",
    )
    # Adapters stay in the model's own dtype: DeepSpeed refuses a model of two dtypes where zero.Init made part of it.
    wrapped: torch.nn.Module = peft.get_peft_model(model, settings, autocast_adapter_dtype=False)
    wrapped.train()
    return wrapped
