"""LoRA by peft itself, as TRL and LLaMA-Factory apply it: adapters at linear layers, everything else frozen.

The method: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021 (arXiv:2106.09685).
"""

from __future__ import annotations

import torch


def with_adapters(
    model: torch.nn.Module,
    *,
    rank: int,
    alpha: int,
    dropout: float,
    targets: list[str],
    modules_to_save: list[str],
    autocast: bool,
) -> torch.nn.Module:
    """Return the model wrapped by peft, in training mode. The names are those of peft's ``LoraConfig``; ``autocast`` is
    its ``autocast_adapter_dtype``. If checkpointing needs inputs that require gradients, peft provides them."""
    import peft

    settings = peft.LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=targets,
        modules_to_save=modules_to_save or None,
        task_type="CAUSAL_LM",
    )
    # In fp32, peft's default, DeepSpeed refuses the model if zero.Init made part of it.
    wrapped: torch.nn.Module = peft.get_peft_model(model, settings, autocast_adapter_dtype=autocast)
    wrapped.train()
    return wrapped
