"""Facts that DeepSpeed's own configuration states. A key that it does not have is stated as well: DeepSpeed's default holds.

"auto" is filled in by transformers or accelerate from what is not in this file, so the fact stays open.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from dsregress.advisories.job_facts import Fact, OneOf
from dsregress.advisories.stated.documents import Document, as_number, as_switch
from dsregress.errors import UsageError
from dsregress.probe.factor import Factor
from dsregress.probe.factors import FACTORS

_AUTO = "auto"

_DTYPES = {
    **dict.fromkeys(("bf16", "bfloat16", "torch.bfloat16"), "bf16"),
    **dict.fromkeys(("fp16", "float16", "half", "torch.float16"), "fp16"),
    **dict.fromkeys(("fp32", "float32", "torch.float32"), "fp32"),
}
_QUANTIZED = "zero_optimization.zero_quantized_weights"
_HALF = {"bf16": "bf16.enabled", "fp16": "fp16.enabled"}

#: Keys of a configuration of DeepSpeed; no other file has them on its first level.
_MARKS = frozenset((
    *("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "fp16", "bf16", "bfloat16"),
    *("zero_allow_untested_optimizer", "steps_per_print", "wall_clock_breakdown", "data_types", "gradient_clipping"),
))  # fmt: skip


#: Of these, options of trainers as well: `bf16: true`.
_OF_TRAINERS_TOO = frozenset({"fp16", "bf16", "gradient_clipping", "train_batch_size"})

_MICRO_BATCH = "train_micro_batch_size_per_gpu"

#: Keys whose value is a section.
_SECTIONS = ("fp16", "bf16", "bfloat16", "zero_optimization", "torch_autocast")

_STAGES = (0, 1, 2, 3)

#: Share of letters in common from which a key is taken for another one misspelt.
_ALMOST = 0.9


def is_of_deepspeed(document: Document) -> bool:
    """Return True for a file that is DeepSpeed's configuration."""
    options = [key for key in document if key in _HALF and not isinstance(document.get(key), Mapping)]
    return not _MARKS.difference(options and _OF_TRAINERS_TOO).isdisjoint(document)


def misspelt_keys(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the keys of the first level that are almost one of DeepSpeed's, with that one. DeepSpeed ignores them."""
    for key in document:
        near = [] if key in _MARKS else difflib.get_close_matches(str(key), sorted(_MARKS), n=1, cutoff=_ALMOST)
        if near and near[0] not in document:
            yield str(key), near[0]


def facts_of_deepspeed(document: Document) -> Iterator[Fact]:
    """Yield the facts that the file states. Raise UsageError for what DeepSpeed does not take."""
    _check_sections(document)
    yield document.fact("zero_stage", _zero_stage(document), "zero_optimization.stage")
    yield from _precision(document)
    yield from _offload(document)
    yield from _accumulation(document)
    yield from _clipping(document)
    yield from _schedule(document)
    yield from (fact for factor in FACTORS if (fact := _setting(factor, document)) is not None)
    for name, key in (("load_universal", "checkpoint.load_universal"), ("quantized_weights", _QUANTIZED)):
        yield document.fact(name, document.get(key) is True, key)
    yield document.fact(
        "mics", document.get("zero_optimization.mics_shard_size") is not None, "zero_optimization.mics_shard_size"
    )  # of any value: all are refused
    yield document.fact("optimizer", "configured" if document.get("optimizer") else "passed", "optimizer")
    yield document.fact("fsdp", False, "zero_optimization")
    if _has_auto(document.values):
        yield Fact(
            name="integration", value=OneOf(("transformers", "accelerate")), source=f'{document.file}: "auto" values'
        )
        yield Fact(name="accelerate_launch", value=True, source=f'{document.file}: "auto" values')


def _check_sections(document: Document) -> None:
    for key in _SECTIONS:
        value = document.get(key)
        is_old_switch = key == "zero_optimization" and isinstance(value, bool)
        if value is not None and not isinstance(value, Mapping) and not is_old_switch:
            example = '{"stage": 3}' if key == "zero_optimization" else '{"enabled": true}'
            what = f"is {json.dumps(value)}, where DeepSpeed takes a section"
            raise UsageError(what, where=f"{document.file}: {key}", hint=f"write {example}")


def _zero_stage(document: Document) -> int:
    """Return the stage, 1 for the old switch of ZeRO. Raise UsageError for one that ZeRO has not."""
    if document.get("zero_optimization") is True:
        return 1
    written = document.get("zero_optimization.stage")
    stage = 0 if written is None else as_number(written)
    if stage not in _STAGES:
        what = f"ZeRO has no stage {written!r}"
        raise UsageError(what, where=f"{document.file}: zero_optimization.stage", hint="write 0, 1, 2 or 3")
    return int(stage)


def _precision(document: Document) -> Iterator[Fact]:
    autocast = document.get("torch_autocast.enabled")
    if as_switch(autocast) is not True:
        yield document.fact("torch_autocast", False, "torch_autocast.enabled")
    else:
        yield document.fact("torch_autocast", True, "torch_autocast.enabled")
        if (dtype := _DTYPES.get(str(document.get("torch_autocast.dtype")))) is not None:
            yield document.fact("dtype", dtype, "torch_autocast.dtype")
        return
    keys = dict(_HALF)
    if document.get("bfloat16") is not None:
        keys["bf16"] = "bfloat16.enabled"
    given = {name: document.get(key) for name, key in keys.items()}
    on = [name for name, value in given.items() if as_switch(value) is True]
    if len(on) > 1:
        raise UsageError(f"enables {' and '.join(on)}", where=document.file, hint="DeepSpeed takes one of them")
    if on:
        yield document.fact("dtype", on[0], keys[on[0]])
    elif _AUTO not in given.values():
        yield Fact(name="dtype", value="fp32", source=f"{document.file}: neither bf16 nor fp16 is enabled")
    if (scale := as_number(document.get("fp16.loss_scale"))) is not None:
        yield document.fact("loss_scale", scale, "fp16.loss_scale")
    if (power := as_number(document.get("fp16.initial_scale_power"))) is not None:
        yield document.fact("initial_scale_power", power, "fp16.initial_scale_power")


def _offload(document: Document) -> Iterator[Fact]:
    for name in ("offload_optimizer", "offload_param"):
        key = f"zero_optimization.{name}.device"
        device = document.get(key)
        yield document.fact(name, offloads(device), key)


def offloads(device: object) -> object:
    """Return the value of the fact for a device to which is offloaded: true for the host, else the device's name."""
    return device == "cpu" if device in (None, "none", "cpu") else str(device)


def _accumulation(document: Document) -> Iterator[Fact]:
    key = "gradient_accumulation_steps"
    steps = as_number(document.get(key))
    if steps is not None:
        yield document.fact(key, steps, key)
    elif document.get(key) is None:
        whole, micro = (document.get(name) for name in ("train_batch_size", _MICRO_BATCH))
        if whole is None or micro is None:
            yield document.fact(key, 1, key)
        elif isinstance(whole, int) and isinstance(micro, int) and micro > 0 and whole % micro == 0:
            source = f"{document.file}: train_batch_size {whole} in micro-batches of {micro}"
            yield Fact(name="micro_batches_per_step", value=whole // micro, source=source)


def _clipping(document: Document) -> Iterator[Fact]:
    value = document.get("gradient_clipping")
    if value == _AUTO:
        yield from automatic_clipping(document, "gradient_clipping")
    elif value is None or as_number(value) is not None:
        yield document.fact("gradient_clipping", as_number(value), "gradient_clipping")


def automatic_clipping(document: Document, key: str) -> Iterator[Fact]:
    """Yield that gradients are clipped at a limit that is not stated: that of TrainingArguments (`max_grad_norm`, 1.0 by
    default), or accelerate's own 1.0 (`Accelerator._prepare_deepspeed`)."""
    yield document.fact("gradient_clipping", OneOf((0.0, 1.0)), key)
    yield document.usual("gradient_clipping", 1.0, key)


def _schedule(document: Document) -> Iterator[Fact]:
    if document.get("scheduler") is None:
        yield document.fact("scheduler", "none", "scheduler")
        return
    if isinstance(kind := document.get("scheduler.type"), str):
        yield document.fact("scheduler", kind, "scheduler.type")
    if (steps := as_number(document.get("scheduler.params.warmup_num_steps"))) is not None:
        yield document.fact("warmup_steps", steps, "scheduler.params.warmup_num_steps")
    rate = "scheduler.params.warmup_max_lr"
    yield document.fact("warmup_max_lr", document.get(rate) is not None, rate)  # for "auto" transformers writes its own


#: Read above, or the sizes that say nothing without the model's.
_OWN = frozenset(("zero_stage", "gradient_clipping", "allgather_bucket_size", "sub_group_size"))


#: Sizes that transformers computes in a way of its own where they are "auto" (DSR-2026-0074).
_TOLD_BY_AUTO = frozenset(("prefetch_bucket_size",))


def _setting(factor: Factor, document: Document) -> Fact | None:
    if not factor.key or factor.is_size or factor.name in _OWN:
        return None
    value = document.get(factor.key)
    if value is None:
        return document.fact(factor.name, None, factor.key)
    if value == _AUTO:
        return document.fact(factor.name, _AUTO, factor.key) if factor.name in _TOLD_BY_AUTO else None
    if not isinstance(value, (str, int, float)):
        return None
    known: Any = _DTYPES.get(value, as_switch(value)) if isinstance(value, str) else value
    return None if known is None else document.fact(factor.name, known, factor.key)


def _has_auto(values: Mapping[str, Any]) -> bool:
    """Return True if any value is "auto". Sections that YAML repeats by an alias are looked at once."""
    left: list[Any] = [values]
    seen: set[int] = set()
    while left:
        value = left.pop()
        if isinstance(value, Mapping) and id(value) not in seen:
            seen.add(id(value))
            left += value.values()
        elif value == _AUTO:
            return True
    return False
