"""Facts that a launch line of OpenRLHF states. It writes DeepSpeed's configuration itself (openrlhf/utils/deepspeed): with a
limit of the gradient norm, without a `scheduler`, for an optimizer that it passes.

Since April 2026 its options are in groups: ``--ds.zero_stage`` for ``--zero_stage``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dsregress.advisories.job_facts import Fact, OneOf
from dsregress.advisories.stated.documents import Document, as_number, as_switch


class _OpenrlhfTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``openrlhf_options.json``."""

    tasks: dict[str, str]  #: program -> the task
    numbers: dict[str, str]  #: option -> fact, of those that have the fact's value
    switches: dict[str, str]  #: likewise
    defaults: dict[str, tuple[str, Any]]  #: option -> fact, and what each release does unless a line says otherwise
    renamed: dict[str, str]  #: the name in a group -> that of before, where it is another one


_TABLE = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=_OpenrlhfTable)

_DTYPES = {"fp32": "fp32", "bf16": "bf16", "fp16": "fp16"}

#: The groups of options that are of the model that is trained, of DeepSpeed, and of its training.
_GROUP = re.compile(r"(?:ds|train|actor|model|ckpt)\.(?P<name>.+)")

#: With one of these a step has another number of micro-batches.
_OTHER_BATCHES = ("use_dynamic_batch", "ring_attn_size", "ds_tensor_parallel_size")


def is_of_openrlhf(module: str) -> bool:
    """Return True for a module of OpenRLHF."""
    return module.startswith("openrlhf.")


class _Options:
    """The options by their names of before, which facts show as the line has them."""

    def __init__(self, document: Document) -> None:
        self._file = document.file
        self._written: dict[str, str] = {}
        self.values: dict[str, Any] = {}
        for name in document:
            group = _GROUP.fullmatch(name)
            known = _TABLE.renamed.get(group["name"], group["name"]) if group else name
            self.values[known] = document.values[name]
            self._written[known] = name
        self.is_grouped = any(map(_GROUP.fullmatch, document))

    def fact(self, name: str, value: Any, option: str) -> Fact:
        return Fact(name=name, value=value, source=f"{self._file}: --{self._written[option]}")


def facts_of_openrlhf(module: str, document: Document) -> Iterator[Fact]:
    """Yield the facts that the options of a module state."""
    source = f"{document.file}: {module}"
    options = _Options(document)
    if (task := _TABLE.tasks.get(module.rpartition(".")[2])) is not None:
        yield Fact(name="task", value=task, source=source)
    yield Fact(name="framework", value="openrlhf", source=source)
    yield Fact(name="integration", value="none", source=source)
    yield Fact(name="scheduler", value="none", source=source)
    yield Fact(name="optimizer", value="passed", source=source)
    if "max_norm" not in options.values:  # its default is 1.0
        yield Fact(name="gradient_clipping", value=OneOf((0.0, 1.0)), source=source)
    for option, (name, value) in _TABLE.defaults.items():
        if option not in options.values:
            yield Fact(name=name, value=value, source=f"{source}'s default", yields=True)
    for option, name in _TABLE.numbers.items():
        if (number := as_number(options.values.get(option))) is not None:
            yield options.fact(name, number, option)
    for option, name in _TABLE.switches.items():
        if options.values.get(option) is True:
            yield options.fact(name, True, option)
    yield from _precision(options, source)
    yield from _given(options)
    yield from _sizes(options)


def _precision(options: _Options, source: str) -> Iterator[Fact]:
    if (dtype := _DTYPES.get(str(options.values.get("param_dtype")))) is not None:
        yield options.fact("dtype", dtype, "param_dtype")
    elif options.values.get("bf16") is True:
        yield options.fact("dtype", "bf16", "bf16")
    elif options.is_grouped:
        yield Fact(name="dtype", value="bf16", source=f"{source}'s default", yields=True)
    if (dtype := _DTYPES.get(str(options.values.get("grad_accum_dtype")))) is not None:
        yield options.fact("gradient_accumulation_dtype", dtype, "grad_accum_dtype")


def _given(options: _Options) -> Iterator[Fact]:
    values = options.values
    if values.get("gradient_checkpointing") is True:
        reentrant = values.get("gradient_checkpointing_use_reentrant") is True
        kind = "reentrant" if reentrant else "non_reentrant"
        yield options.fact("gradient_checkpointing", kind, "gradient_checkpointing")
    if values.get("load_checkpoint") is True:
        yield options.fact("resume", True, "load_checkpoint")
    if values.get("zero_stage") == "3":  # its models are made under transformers' HfDeepSpeedConfig
        yield options.fact("zero_init", True, "zero_stage")
    if isinstance(model := values.get("pretrain"), str):
        yield options.fact("model_name", model, "pretrain")


def _sizes(options: _Options) -> Iterator[Fact]:
    """Yield the number of ranks that train, and the micro-batches of a step."""
    values = options.values
    nodes, gpus = (as_number(values.get(f"actor_num_{one}")) for one in ("nodes", "gpus_per_node"))
    if nodes and gpus:
        yield options.fact("world_size", nodes * gpus, "actor_num_gpus_per_node")
    whole, micro = (as_number(values.get(one)) for one in ("train_batch_size", "micro_train_batch_size"))
    is_plain = not any(
        as_switch(values.get(one)) is True or (as_number(values.get(one)) or 1) > 1 for one in _OTHER_BATCHES
    )
    if whole and micro and whole % micro == 0 and is_plain:
        yield options.fact("micro_batches_per_step", whole // micro, "train_batch_size")
