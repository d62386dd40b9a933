"""The fixed workload: real transformers models with weights that are a function of their names, and data from a seed.

Adapters and the truth both use it, so every framework, release, ZeRO stage and world size trains the same model on the
same data from the same start.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from dsregress.probe.factors.schedules import FIRST_RATE
from dsregress.probe.workloads import lora
from dsregress.probe.workloads.workload_parameters import (
    AdapterParameters,
    BatchParameters,
    LoopParameters,
    ModelParameters,
    SampleParameters,
    UpdateParameters,
)

_SEED = 20150


@dataclasses.dataclass(frozen=True)
class Workload(ModelParameters, AdapterParameters, BatchParameters, SampleParameters, UpdateParameters, LoopParameters):
    """The part of a scenario's parameters that defines what is computed, independent of the framework."""

    objective: str = "next_token"  #: what a micro-batch computes: a name in `dsregress.probe.workloads.objectives`
    #: the first steps are compared with plain PyTorch, which takes as long as they do
    judged: bool = True

    @property
    def torch_dtype(self) -> torch.dtype:
        """Return the dtype of the weights."""
        return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[self.dtype]


def pick(kind: Any, parameters: Mapping[str, object]) -> Any:
    """Return an instance of a dataclass with the fields that a scenario's parameters have."""
    return kind(**{f.name: parameters[f.name] for f in dataclasses.fields(kind) if f.name in parameters})


def model_configuration(work: ModelParameters, shape: Mapping[str, object]) -> Any:
    """Return the model's transformers configuration. ``shape`` is a row of ``scenarios/models.py``."""
    from transformers import AutoConfig

    fields = dict(shape)
    # The attention is set here and not as an argument of from_config: releases differ in which of the two they respect.
    return AutoConfig.for_model(fields.pop("model_type"), **fields, use_cache=False, attn_implementation=work.attention)


def build_model(work: Workload, config: object, dtype: torch.dtype) -> torch.nn.Module:
    """Return a causal language model in training mode, with its adapters, its weights as the libraries leave them; the
    caller sets each to the value that `weight` makes from its name. Raise ValueError for unknown ``model_outputs``."""
    import transformers

    model: torch.nn.Module = transformers.AutoModelForCausalLM.from_config(config, **of_type(dtype))
    model.train()
    checkpointed(work, model)
    if work.lora_rank:
        model = lora.with_adapters(model, work)
    if work.frozen:
        for name, parameter in model.named_parameters():
            if work.frozen in name:
                parameter.requires_grad_(False)
    if work.model_outputs == "loss":
        model.register_forward_hook(lambda module, inputs, output: output.loss)
    elif work.model_outputs != "all":
        raise ValueError(f"no such model_outputs: {work.model_outputs} (known: all, loss)")
    return model


def checkpointed(work: ModelParameters, model: torch.nn.Module) -> None:
    """Enable gradient checkpointing by transformers' own switch, if the workload has it."""
    if work.gradient_checkpointing != "none":
        reentrant = work.gradient_checkpointing == "reentrant"
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})


def of_type(dtype: torch.dtype) -> dict[str, object]:
    """Return the dtype as a keyword argument of transformers' ``from_config``; releases differ in its name."""
    import transformers

    release = tuple(int(part) for part in transformers.__version__.split(".")[:2])
    return {"dtype" if release >= (4, 56) else "torch_dtype": dtype}


def parameter_groups(work: UpdateParameters, model: torch.nn.Module) -> list[dict[str, Any]]:
    """Return the optimizer's groups. Without ``empty_groups``, groups without parameters are left out: with a schedule,
    torch 2.10 and later fails on them, as DeepSpeed drops them (transformers#43692), and nothing else of such a job
    could be measured."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad or work.grouped_frozen]
    if not work.decay_groups:
        return [{"params": [p for _, p in named], "weight_decay": work.weight_decay}]
    own_rate = {"lr": work.learning_rate / 10} if work.group_learning_rates else {}
    # By name, not by dimension: a partitioned parameter has lost its own shape.
    plain = [p for name, p in named if name.endswith("bias") or "norm" in name]
    ids = {id(p) for p in plain}
    groups = [
        {"params": [p for _, p in named if id(p) not in ids], "weight_decay": work.weight_decay},
        {"params": plain, "weight_decay": 0.0, **own_rate},
    ]
    return [group for group in groups if group["params"] or work.empty_groups]


def plain_optimizer(work: UpdateParameters, groups: list[dict[str, object]]) -> torch.optim.Optimizer:
    """Return torch's own AdamW, one tensor at a time: the fused and batched forms allocate differently from release to
    release of torch, which is not what is compared."""
    return torch.optim.AdamW(groups, **adam(work), foreach=False)


def adam(work: UpdateParameters) -> dict[str, Any]:
    """Return the arguments of AdamW that its groups do not have."""
    return {"lr": work.learning_rate, "betas": ADAM_BETAS, "eps": ADAM_EPSILON}


def scheduler(work: UpdateParameters, optimizer: torch.optim.Optimizer) -> Any:
    """Return the learning rate's schedule, torch's own; None if it is constant."""
    if named := work.configured_schedule:
        rates = [functools.partial(SCHEDULES[named], group["lr"]) for group in optimizer.param_groups]
        return torch.optim.lr_scheduler.LambdaLR(optimizer, rates)
    if work.learning_rate_decay == 1:
        return None
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: work.learning_rate_decay**step)


def _warming(rate: float, step: int) -> float:
    """Return the share of a rate that rises from the first rate to the group's own."""
    return (FIRST_RATE + (rate - FIRST_RATE) * _risen(rate, step)) / rate


def _risen(rate: float, step: int) -> float:
    """Return the share of a rate that rises from zero in two steps, which is the least number. Until the second step a rate
    is the least one: iteration 0 of schedules is the second step."""
    return min(1.0, max(0, step - 1) / 2)


#: A schedule by DeepSpeed's name (`dsregress.probe.factors.schedules`) -> the share of a group's rate in a step. Three steps
#: show only the rise of those that fall later.
SCHEDULES: Mapping[str, Callable[[float, int], float]] = {
    "WarmupLR": _warming,
    "WarmupDecayLR": _risen,
    "WarmupCosineLR": _risen,
}


ADAM_BETAS = (0.9, 0.95)
#: Large compared with the noise of bf16 gradients of the tiny models: with torch's 1e-8, Adam turns the rounding of a
#: gradient near zero into a full step of either sign, and no tolerance could distinguish a wrong gradient from that.
ADAM_EPSILON = 1e-3


def batch(
    work: BatchParameters, vocabulary: int, step: int, rank: int, micro_batch: int, device: torch.device | str = "cpu"
) -> torch.Tensor:
    """Return the token ids of one micro-batch of one rank, shape (micro_batch_size, sequence_length or less)."""
    if work.identical_micro_batches:
        micro_batch = 0
    seed = ((_SEED + step) * 4099 + rank) * 257 + micro_batch
    generator = torch.Generator().manual_seed(seed)
    length = work.sequence_length
    if work.varying_length:
        length -= (length // 8) * ((step + micro_batch) % 4)
    if work.uneven_ranks:
        length -= (length // 8) * (rank % 4)
    is_last = step % 2 == 1 and micro_batch == work.gradient_accumulation_steps - 1
    sequences = max(1, work.micro_batch_size // 2) if work.uneven_last and is_last else work.micro_batch_size
    shape = (sequences, length)
    return torch.randint(0, vocabulary, shape, generator=generator).to(device)
