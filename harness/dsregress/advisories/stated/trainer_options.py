"""Facts that the options of a trainer state: transformers' TrainingArguments, TRL's, LLaMA-Factory's and axolotl's, from a
YAML file or a launch line. An option that is not given states nothing, as its default depends on the release."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dsregress.advisories.job_facts import Fact, OneOf
from dsregress.advisories.stated.documents import Document, as_number, as_switch, without_sharding

_LORA = {"lora": True, "qlora": True, "dora": True, "full": False, "freeze": False}
_TASKS = {
    **dict.fromkeys(("sft", "dpo", "grpo", "ppo", "gkd", "reward"), ""),
    "rm": "reward",
    "pt": "pretrain",
    "pretrain": "pretrain",
}

_DEEPSPEED_KEYS = ("deepspeed", "deepspeed_config")
_SHARDING_KEYS = ("fsdp", "fsdp_config", "fsdp_version")
_MODEL_KEYS = ("model_name_or_path", "base_model", "model_name")
_EVALUATION_KEYS = ("eval_strategy", "evaluation_strategy")
_RESUME_KEYS = ("resume_from_checkpoint", "auto_resume_from_checkpoints")
_QUANTIZED_KEYS = ("load_in_4bit", "load_in_8bit", "quantization_bit")
_MODULE_KEYS = ("lora_modules_to_save", "modules_to_save", "additional_target")


def deepspeed_file(document: Document) -> str:
    """Return the file of DeepSpeed's configuration that the options name; empty if they name none."""
    named = (
        document.get(key) for key in _DEEPSPEED_KEYS
    )  # `--deepspeed` stands alone beside `--deepspeed_config FILE`
    files = (one for one in named if isinstance(one, str) and one.endswith((".json", ".yaml", ".yml")))
    return next(files, "")


def is_of_llamafactory(document: Document) -> bool:
    """Return True for a file of LLaMA-Factory's settings."""
    return document.get("model_name_or_path") is not None and not {"finetuning_type", "template"}.isdisjoint(document)


def is_of_axolotl(document: Document) -> bool:
    """Return True for a file of axolotl's settings."""
    return document.get("base_model") is not None


def facts_of_trainer(document: Document) -> Iterator[Fact]:
    """Yield the facts that the options state."""
    yield from _numbers(document)
    yield from _precision(document)
    yield from _adapters(document)
    yield from _occasions(document)
    yield from _checkpointing(document)
    yield from _sharding(document)
    for key in _given(document, _MODEL_KEYS):
        yield document.fact("model_name", str(document.get(key)), key)
    for key in ("torch_compile",):
        if (value := as_switch(document.get(key))) is not None:
            yield document.fact("torch_compile", value, key)
    if as_switch(document.get("use_cpu")) is True:
        yield document.fact("device", "cpu", "use_cpu")
    for key in ("stage", "rl"):
        if (task := str(document.get(key))) in _TASKS:
            yield document.fact("task", _TASKS[task] or task, key)
    if is_of_llamafactory(document) and document.get("stage") != "ppo":
        yield Fact(name="trainer", value=True, source=f"{document.file}: LLaMA-Factory's settings")
    if is_of_llamafactory(document):
        yield Fact(name="framework", value="llamafactory", source=f"{document.file}: LLaMA-Factory's settings")
    elif is_of_axolotl(document):
        yield Fact(name="trainer", value=True, source=f"{document.file}: axolotl's settings")
        yield Fact(name="framework", value="axolotl", source=f"{document.file}: axolotl's settings")


def _sharding(document: Document) -> Iterator[Fact]:
    """Yield if FSDP or DeepSpeed is used. A trainer's own settings that name neither leave it to the launcher."""
    used = [
        key
        for key in _given(document, _SHARDING_KEYS)
        if document.get(key) and as_switch(document.get(key)) is not False
    ]
    if used:
        yield document.fact("fsdp", True, used[0])
        for key in ("fsdp_version", "fsdp_config.fsdp_version", "fsdp_config.version"):
            if (version := as_number(document.get(key))) is not None:
                yield document.fact("fsdp_version", version, key)
    elif is_of_llamafactory(document) or is_of_axolotl(document):
        yield from unsharded(document)


def unsharded(options: Document) -> Iterator[Fact]:
    """Yield that a trainer all of whose options these are uses neither DeepSpeed nor FSDP, if they name neither."""
    if not _given(options, (*_DEEPSPEED_KEYS, *_SHARDING_KEYS)):
        yield from without_sharding(options, "deepspeed")


def _given(document: Document, keys: tuple[str, ...]) -> list[str]:
    return [key for key in keys if document.get(key) is not None]


def _numbers(document: Document) -> Iterator[Fact]:
    for key in ("gradient_accumulation_steps", "max_prompt_length"):
        if (number := as_number(document.get(key))) is not None:
            yield document.fact(key, number, key)
    steps, ratio = as_number(document.get("warmup_steps")), as_number(document.get("warmup_ratio"))
    if steps:
        yield document.fact("warmup_steps", steps if steps >= 1 else 1, "warmup_steps")  # a share of the steps below 1
    elif ratio:
        yield document.fact("warmup_steps", 1, "warmup_ratio")  # of all steps, rounded up
    elif steps == 0 and (ratio == 0 or document.get("warmup_ratio") is None):
        yield document.fact("warmup_steps", 0, "warmup_steps")


def _precision(document: Document) -> Iterator[Fact]:
    for key in ("bf16", "fp16"):
        if as_switch(document.get(key)) is True:
            yield document.fact("dtype", key, key)


def _adapters(document: Document) -> Iterator[Fact]:
    for key in ("finetuning_type", "adapter"):
        if (lora := _LORA.get(str(document.get(key)))) is not None:
            yield document.fact("lora", lora, key)
    if is_of_axolotl(document) and document.get("adapter") is None:  # all parameters are trained
        yield document.usual("lora", False, "adapter")
    if (used := as_switch(document.get("use_peft"))) is not None:
        yield document.fact("lora", used, "use_peft")
        if not used:
            return
    for key in ("lora_r", "lora_rank"):
        if rank := as_number(document.get(key)):
            yield document.fact("lora_rank", rank, key)
    for key in _given(document, _MODULE_KEYS):
        value = document.get(key)
        names = value if isinstance(value, list) else str(value).replace(",", " ").split()
        yield document.fact("lora_modules_to_save", " ".join(map(str, names)), key)
    bits = {key: document.get(key) for key in _given(document, _QUANTIZED_KEYS)}
    on = [key for key, value in bits.items() if as_number(value) or as_switch(value) is True]
    on += ["adapter"] if document.get("adapter") == "qlora" else []
    for key in on[:1] or list(bits)[:1]:  # any of them quantizes
        yield document.fact("quantized", bool(on), key)


def _occasions(document: Document) -> Iterator[Fact]:
    for key in _given(document, _EVALUATION_KEYS):
        yield document.fact("evaluate", as_switch(document.get(key)) is not False, key)
    for key in ("evals_per_epoch",):
        if number := as_number(document.get(key)):
            yield document.fact("evaluate", number > 0, key)
    for key in _given(document, _RESUME_KEYS):
        resumes = as_switch(document.get(key)) is not False
        yield document.fact("resume", resumes, key)
        yield document.fact("checkpoint", resumes, key)


def _checkpointing(document: Document) -> Iterator[Fact]:
    key = "gradient_checkpointing"
    value = document.get(key)
    yield from _of_llamafactory(document)
    if value is None or (used := as_switch(value)) is None:
        return
    reentrant = as_switch(_arguments(document.get(f"{key}_kwargs")).get("use_reentrant"))
    if not used:
        yield document.fact(key, "none", key)
    elif reentrant is None:
        yield document.fact(key, OneOf(("reentrant", "non_reentrant")), key)
    else:
        yield document.fact(key, "reentrant" if reentrant else "non_reentrant", f"{key}_kwargs")


#: LLaMA-Factory's options that choose the kind of checkpointing.
_CHECKPOINTING_KEYS = ("use_reentrant_gc", "disable_gradient_checkpointing")


def _of_llamafactory(document: Document) -> Iterator[Fact]:
    """Yield what LLaMA-Factory does unless it is told otherwise (`ModelArguments`, `FinetuningArguments`)."""
    is_whole = is_of_llamafactory(document)
    if is_whole or _given(document, _CHECKPOINTING_KEYS):
        yield from _checkpointing_of_llamafactory(document)
    if is_whole and not _given(document, ("additional_target", "resize_vocab")):
        yield document.usual("lora_modules_to_save", "", "additional_target")
    from_scratch = as_switch(document.get("train_from_scratch"))
    if is_whole or from_scratch is not None:
        yield document.usual("from_config", from_scratch is True, "train_from_scratch")


def _checkpointing_of_llamafactory(document: Document) -> Iterator[Fact]:
    reentrant, disabled = (document.get(key) for key in _CHECKPOINTING_KEYS)
    if as_switch(disabled) is True:
        yield document.fact("gradient_checkpointing", "none", _CHECKPOINTING_KEYS[1])
    elif as_switch(reentrant) is False:
        yield document.fact("gradient_checkpointing", "non_reentrant", _CHECKPOINTING_KEYS[0])
    elif (
        document.get("deepspeed") is not None
    ):  # under FSDP2, of which accelerate's file may be, it sets the option to false
        yield document.usual("gradient_checkpointing", "reentrant", _CHECKPOINTING_KEYS[0])


def _arguments(value: Any) -> dict[str, Any]:
    """Return a dictionary, as YAML has it or as a command line writes it."""
    if isinstance(value, str):
        try:
            value = msgspec.json.decode(value)
        except msgspec.DecodeError:
            return {}
    return value if isinstance(value, dict) else {}
