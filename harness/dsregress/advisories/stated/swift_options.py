"""Facts that a launch line of ms-swift states. Its trainers are transformers' and TRL's. ``--deepspeed`` names one of its
own configurations (swift/config of ms-swift) or a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from dsregress.advisories.job_facts import Fact
from dsregress.advisories.stated.deepspeed_json import facts_of_deepspeed
from dsregress.advisories.stated.documents import Document, as_number, as_switch
from dsregress.probe.launch_line import INSTALLED, LaunchLine


class _SwiftTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``swift_options.json``."""

    tasks: dict[str, str]  #: a kind of ``swift rlhf`` -> the task
    dtypes: dict[str, str]
    configuration: dict[str, object]  #: what all its configurations of DeepSpeed share
    zero: dict[str, object]
    below_3: dict[str, object]  #: of ZeRO's stages without sharded weights
    of_3: dict[str, object]


_TABLE = msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=_SwiftTable)

_COMMANDS = {"sft": "sft", "pt": "pretrain", "rlhf": ""}
_COMMAND = re.compile(rf"swift ({'|'.join(_COMMANDS)})|(?:.*/)?swift[./]cli[./]({'|'.join(_COMMANDS)})(?:\.py)?")
_TUNERS = ("train_type", "tuner_type", "sft_type")


def command_of_swift(line: LaunchLine) -> str:
    """Return the command of ms-swift that trains: ``sft`` of ``swift sft`` and ``torchrun swift/cli/sft.py``; empty for any
    other line."""
    words = (line.program, *line.arguments[:1]) if line.launcher == INSTALLED else (line.program,)
    found = _COMMAND.fullmatch(" ".join(words))
    return found[1] or found[2] if found is not None else ""


def facts_of_swift(command: str, document: Document) -> Iterator[Fact]:
    """Yield the facts that a command and its options state, beside those of TrainingArguments."""
    source = f"{document.file}: swift {command}"
    yield Fact(name="trainer", value=True, source=source)
    task = _COMMANDS[command] or _TABLE.tasks.get(str(document.get("rlhf_type") or "dpo"))
    if task is not None:
        yield (
            document.fact("task", task, "rlhf_type")
            if command == "rlhf"
            else Fact(name="task", value=task, source=source)
        )
    if (dtype := _TABLE.dtypes.get(str(document.get("torch_dtype")))) is not None:
        yield document.fact("dtype", dtype, "torch_dtype")
    if isinstance(model := document.get("model"), str):
        yield document.fact("model_name", model, "model")
    yield from _tuned(document)
    if bits := as_number(document.get("quant_bits")):
        yield document.fact("quantized", bool(bits), "quant_bits")
    yield from _sharded(document)


def _tuned(document: Document) -> Iterator[Fact]:
    tuner = next((key for key in _TUNERS if document.get(key) is not None), _TUNERS[0])
    kind = str(document.get(tuner) or "lora")
    if kind in ("lora", "full"):
        fact = document.fact("lora", kind == "lora", tuner)
        yield msgspec.structs.replace(fact, yields=document.get(tuner) is None)
    yield document.usual("lora_modules_to_save", "", "modules_to_save")


def _sharded(document: Document) -> Iterator[Fact]:
    named = document.get("deepspeed")
    if named is None:
        return
    configuration = _configuration(str(named))
    if configuration is not None:
        yield from facts_of_deepspeed(Document(configuration, f"ms-swift's {named}"))
    # `_fix_gradient_checkpointing` of its trainers
    if as_switch(document.get("gradient_checkpointing")) is not False:
        yield document.usual("gradient_checkpointing", "reentrant", "gradient_checkpointing_kwargs")


def _configuration(name: str) -> dict[str, object] | None:
    """Return ms-swift's own configuration of a name, ``zero3_offload``; None for a file. Version 2 called it
    ``default-zero3``."""
    stage, _, offload = name.removeprefix("default-").partition("_")
    if stage not in ("zero0", "zero1", "zero2", "zero3") or offload not in ("", "offload"):
        return None
    number = int(stage[-1])
    device = {"device": "cpu" if offload else "none", "pin_memory": True}
    zero = {"stage": number, **_TABLE.zero, **(_TABLE.of_3 if number == 3 else _TABLE.below_3)}
    offloaded = ("offload_optimizer", "offload_param")[: 0 if number == 0 else 2 if number == 3 else 1]
    return {**_TABLE.configuration, "zero_optimization": {**zero, **dict.fromkeys(offloaded, device)}}
