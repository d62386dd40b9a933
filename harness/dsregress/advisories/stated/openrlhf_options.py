"""Facts that a launch line of OpenRLHF states. It writes DeepSpeed's configuration itself (openrlhf/utils/deepspeed): with a
limit of the gradient norm, without a `scheduler`, for an optimizer that it passes."""

from __future__ import annotations

from collections.abc import Iterator

from dsregress.advisories.job_facts import Fact, OneOf
from dsregress.advisories.stated.documents import Document, as_number

_TASKS = {"train_sft": "sft", "train_dpo": "dpo", "train_ppo_ray": "ppo", "train_ppo": "ppo", "train_rm": "reward"}
_DTYPES = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}

#: Option -> fact, of those that have the fact's value.
_NUMBERS = {
    "zero_stage": "zero_stage",
    "max_norm": "gradient_clipping",
    "zpg": "hpz_partition_size",
    "lora_rank": "lora_rank",
}
_SWITCHES = {"adam_offload": "offload_optimizer", "overlap_comm": "overlap_comm", "load_in_4bit": "quantized"}


def is_of_openrlhf(module: str) -> bool:
    """Return True for a module of OpenRLHF."""
    return module.startswith("openrlhf.")


def facts_of_openrlhf(module: str, document: Document) -> Iterator[Fact]:
    """Yield the facts that the options of a module state."""
    source = f"{document.file}: {module}"
    if (task := _TASKS.get(module.rpartition(".")[2])) is not None:
        yield Fact(name="task", value=task, source=source)
    yield Fact(name="framework", value="openrlhf", source=source)
    yield Fact(name="integration", value="none", source=source)
    yield Fact(name="scheduler", value="none", source=source)
    yield Fact(name="optimizer", value="passed", source=source)
    if document.get("max_norm") is None:  # its default is 1.0
        yield Fact(name="gradient_clipping", value=OneOf((0.0, 1.0)), source=source)
    for option, name in _NUMBERS.items():
        if (number := as_number(document.get(option))) is not None:
            yield document.fact(name, number, option)
    for option, name in _SWITCHES.items():
        if document.get(option) is True:
            yield document.fact(name, True, option)
    yield from _given(document)


def _given(document: Document) -> Iterator[Fact]:
    if document.get("bf16") is True:
        yield document.fact("dtype", "bf16", "bf16")
    if (dtype := _DTYPES.get(str(document.get("grad_accum_dtype")))) is not None:
        yield document.fact("gradient_accumulation_dtype", dtype, "grad_accum_dtype")
    if document.get("gradient_checkpointing") is True:
        reentrant = document.get("gradient_checkpointing_use_reentrant") is True
        yield document.fact(
            "gradient_checkpointing", "reentrant" if reentrant else "non_reentrant", "gradient_checkpointing"
        )
    if document.get("load_checkpoint") is True:
        yield document.fact("resume", True, "load_checkpoint")
    if document.get("zero_stage") == "3":  # its models are made under transformers' HfDeepSpeedConfig
        yield document.fact("zero_init", True, "zero_stage")
    if isinstance(model := document.get("pretrain"), str):
        yield document.fact("model_name", model, "pretrain")
    nodes, gpus = as_number(document.get("actor_num_nodes")), as_number(document.get("actor_num_gpus_per_node"))
    if nodes and gpus:
        yield document.fact("world_size", nodes * gpus, "actor_num_gpus_per_node")
