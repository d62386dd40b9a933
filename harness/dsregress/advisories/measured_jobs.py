"""Measured workloads as jobs: the facts that their parameters mean, as of a reader's job. Pure."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from dsregress.advisories.job_facts import Fact, Facts, merged_facts
from dsregress.advisories.stated.launch import facts_of_line
from dsregress.advisories.stated.observed_run import facts_of_run
from dsregress.errors import UsageError
from dsregress.model import split_workload
from dsregress.probe.adapters import PROGRAM
from dsregress.probe.border.wire import Detail
from dsregress.probe.factor import among
from dsregress.probe.factors import BY_NAME, factor_values
from dsregress.probe.program import spelled_out

#: The values of these parameters in workloads that do not name them.
UNNAMED = {"model_outputs": "all", "integration": "transformers"}

#: Scenarios that are programs, of which the facts are known that their options mean.
_TRAINER_LORA, _TRAINER_RESUME, _TRL_TRAINERS = "trainer_lora", "trainer_resume", "trl_trainers"
_OF_TRAINER_LORA = {"settings", "gradient_checkpointing", "schedule_warmup", "lora_rank", "evaluate"}
_OF_TRAINER_RESUME = {"settings", "lora_rank", "interrupt_after"}
_OF_TRL_TRAINERS = {"settings", "lora_rank", "trainer"}

#: Facts of programs that have one job, by the beginning of their scenario's name.
_PROGRAMS = msgspec.toml.decode(
    Path(__file__).with_name("measured_programs.toml").read_bytes(), type=dict[str, dict[str, str | int | bool]]
)

#: A folder without the files of any job.
_NOWHERE = Path(os.devnull)

#: Of ZeRO-3, in elements of a parameter: the default.
_PERSISTENT = 100_000


def job_facts(workload: str, parameters: Mapping[str, Any]) -> Facts:
    """Return the facts of a workload that are known by its parameters, as of a reader's job."""
    parts = split_workload(workload)
    if _is_without_partitions(parameters):
        return {}
    found: dict[str, Any] = {"device": _device(workload)}
    if parts.scenario == _TRAINER_LORA and parameters.keys() >= _OF_TRAINER_LORA:
        found |= _trainer_lora(parameters)
    elif parts.scenario == _TRAINER_RESUME and parameters.keys() >= _OF_TRAINER_RESUME:
        found |= _trainer_resume(parameters)
    elif parts.scenario == _TRL_TRAINERS and parameters.keys() >= _OF_TRL_TRAINERS:
        found |= _trl_trainers(parameters)
    elif declared := _declared(workload):
        found |= declared
    else:
        found |= _engine_facts(parts.scenario, parameters)
    facts, _ = merged_facts(Fact(name=name, value=value, source="") for name, value in found.items())
    return {name: fact.value for name, fact in facts.items()}


def program_facts(
    workload: str, parameters: Mapping[str, Any], trained: Collection[str] = (), detail: Detail | None = None
) -> Facts:
    """Return the facts of a program: what was in force when it ran (`facts_of_run`), and what its launch line states. The
    files that the line names are not read."""
    try:
        stated, _ = facts_of_line(spelled_out(parameters), _NOWHERE)
    except UsageError:  # a line of an earlier version
        stated = []
    observed = [] if detail is None else list(facts_of_run(trained, detail))
    observed += [Fact(name=name, value=value, source="") for name, value in _declared(workload).items()]
    observed.append(Fact(name="device", value=_device(workload), source=""))
    if isinstance(ranks := parameters.get("world_size"), int):
        observed.append(Fact(name="world_size", value=ranks, source=""))
    facts, _ = merged_facts(stated, observed)
    return {name: fact.value for name, fact in facts.items()}


def is_program(workload: str, parameters: Mapping[str, Any]) -> bool:
    """Return True if a workload is a program of whose job its parameters say too little."""
    of_options = (_TRAINER_LORA, _TRAINER_RESUME, _TRL_TRAINERS)
    return PROGRAM in parameters and split_workload(workload).scenario not in of_options


def _declared(workload: str) -> Facts:
    """Return the facts of a program that ``measured_programs.toml`` has."""
    scenario = split_workload(workload).scenario
    return next((facts for name, facts in _PROGRAMS.items() if scenario.startswith(name)), {})


def as_readers(facts: Facts) -> Facts:
    """Return the facts of a workload as of the reader's job, which runs on GPUs wherever the workload was measured; empty if
    only that is known."""
    return {**facts, "device": "cuda"} if facts.keys() - {"device"} else {}


def reader_facts(workload: str, parameters: Mapping[str, Any]) -> Facts:
    """Return the same facts as `job_facts`, as of the reader's job."""
    return as_readers(job_facts(workload, parameters))


def _device(workload: str) -> str:
    return "cpu" if split_workload(workload).device == "cpu" else "cuda"


def _stage(settings: str) -> dict[str, int]:
    """Return the stage by the name of a file of settings; empty if it names none."""
    return {"zero_stage": int(settings[4])} if settings[:5] in ("zero1", "zero2", "zero3") else {}


def _trainer_resume(parameters: Mapping[str, Any]) -> dict[str, Any]:
    settings, rank = str(parameters["settings"]), parameters["lora_rank"]
    return {
        "trainer": True,
        "fsdp": False,
        **_stage(settings),
        "scheduler": "WarmupDecayLR" if "_scheduler" in settings else "none",
        "lora_rank": rank,
        "dtype": "bf16",
        "world_size": 2,
        "gradient_accumulation_steps": 1,
        "checkpoint": parameters["interrupt_after"] > 0,
        "resume": parameters["interrupt_after"] > 0,
    }


def _trainer_lora(parameters: Mapping[str, Any]) -> dict[str, Any]:
    settings = str(parameters["settings"])
    checkpointing = parameters["gradient_checkpointing"]
    return {
        "trainer": True,
        "fsdp": False,
        **_stage(settings),
        "scheduler": "WarmupDecayLR" if "_scheduler" in settings else "none",
        "warmup_steps": parameters["schedule_warmup"],
        "lora_rank": parameters["lora_rank"],
        "dtype": "bf16",
        "world_size": 2,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "gradient_checkpointing": "reentrant" if checkpointing else "none",
        "evaluate": parameters["evaluate"] != "no",
        "objective": "next_token",
        "forward_between": False,
        "checkpoint": False,
        "offload_optimizer": False,
        "offload_param": False,
        "torch_autocast": False,
        "zero_init": settings.startswith("zero3"),
        "autocast_adapter_dtype": parameters["lora_rank"] > 0,
    }


def _trl_trainers(parameters: Mapping[str, object]) -> dict[str, object]:
    task = parameters["trainer"]
    stage = _stage(str(parameters["settings"]))
    return {
        "trainer": True,
        "fsdp": False,
        **stage,
        "lora_rank": parameters["lora_rank"],
        "task": task,
        "generates": task == "grpo",
    }


def _is_without_partitions(parameters: Mapping[str, Any]) -> bool:
    """Return True if a tiny model is persistent as a whole, as no job's is."""
    return parameters.get("persistence_threshold") == _PERSISTENT


def _engine_facts(scenario: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a scenario whose parameters are factors; empty if they are not."""
    if not among(parameters.get("zero_stage"), BY_NAME["zero_stage"].known) or "micro_batch_size" not in parameters:
        return {}
    values = factor_values({**UNNAMED, **parameters})
    schedule = {None: "WarmupLR" if values["warmup"] else "none"}
    return {
        **{name: value for name, value in values.items() if value != "auto"},
        "trainer": "trainer" in scenario,
        "fsdp": False,
        "scheduler": schedule.get(values["schedule"], values["schedule"]),
        "load_universal": values["universal"],
        "frozen_weights": bool(values["frozen"] or values["lora_rank"]),
    }
