"""Problems of published results, by the source that an advisory names, and the facts of their workloads."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dsregress.advisories.job_facts import Fact, merged_facts
from dsregress.compare import Comparison, Problem
from dsregress.model import split_workload
from dsregress.probe.factor import among
from dsregress.probe.factors import BY_NAME, factor_values
from dsregress.report.answer_matching import UNNAMED
from dsregress.report.context import report_context
from dsregress.report.problem_facts import problem_facts
from dsregress.report.upstream_changes import UpstreamChange
from tests.unit.docs import findings_page, reproducer_page

#: The comparisons that docs/findings.md shows.
COMPARED = (
    ("2026-11-26.jsonl.gz", "0.15.0"),
    ("2026-11-21-bisect.jsonl.gz", "transformers==4.45.2"),
    ("2026-11-24-trainer-lora.jsonl.gz", "0.15.0"),
    ("2026-11-25-autocast.jsonl.gz", "0.16.7"),
    ("2026-11-23-fsdp-lora.jsonl.gz", "transformers==4.49.0"),
    ("2026-11-21-sweep.jsonl.gz", "0.15.0"),
)

#: Scenarios that are programs, of which the facts are known that their options mean.
_TRAINER_LORA = "trainer_lora"

#: Facts of programs that have one job, by the beginning of their scenario's name.
_PROGRAMS: Mapping[str, Mapping[str, Any]] = {
    "train-14f9b6": {"trainer": True, "zero_stage": 3, "gradient_accumulation_steps": 4, "lora_rank": 0},
    "gkd-": {"trainer": True, "zero_stage": 3, "task": "gkd", "generates": True},
    "sft-dc2296": {"trainer": True, "fsdp": True, "lora_rank": 16, "task": "sft"},
    "train-de96b2": {
        "trainer": True,
        "quantized": True,
        "lora_rank": 64,
        "task": "sft",
        "gradient_checkpointing": "none",
    },
}

#: Of ZeRO-3, in elements of a parameter: the default.
_PERSISTENT = 100_000

Versions = Mapping[str, str]


class ShownOn(msgspec.Struct, frozen=True, kw_only=True):
    """A problem on one workload."""

    workload: str
    facts: Mapping[str, Any]
    having: tuple[Versions, ...]  #: releases of the stacks that have it, in version order
    free: tuple[Versions, ...]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a comparison."""

    bundle: str
    script: str  #: of an answer of `reproduce`
    by_hand: str
    in_part: bool  #: the script is about another part of it
    is_cost: bool
    message: str
    on: tuple[ShownOn, ...]
    began: tuple[UpstreamChange, ...]
    ended: tuple[UpstreamChange, ...]


@functools.cache
def problems_shown() -> tuple[Shown, ...]:
    """Return the problems of all comparisons."""
    return tuple(one for bundle, baseline in COMPARED for one in _of_comparison(bundle, baseline))


def _of_comparison(bundle: str, baseline: str) -> Iterator[Shown]:
    comparison = findings_page._compared(f"results/{bundle}", baseline)
    facts = problem_facts(report_context(comparison, known=reproducer_page.known()))
    for problem in comparison.problems:
        own = facts[problem.worst.key]
        yield Shown(
            bundle=bundle,
            script=own.reproduction.name if own.reproduction is not None else "",
            by_hand=own.by_hand.removeprefix("by_hand/").removesuffix(".py"),
            in_part=bool(own.in_part),
            is_cost=problem.kind.is_cost,
            message=problem.worst.message,
            on=tuple(_on(comparison, problem, workload) for workload in problem.affected),
            began=own.began,
            ended=own.ended,
        )


def _on(comparison: Comparison, problem: Problem, workload: str) -> ShownOn:
    stacks = dict(zip(comparison.names, comparison.stacks, strict=True))
    having = problem.affected[workload]
    free = [
        stack
        for stack in comparison.cells.stacks_of(workload)
        if stack in problem.free and stack not in having and stack not in comparison.ended.get(workload, {})
    ]
    return ShownOn(
        workload=workload,
        facts=facts_of(workload, comparison.parameters[workload]),
        having=tuple(stacks[stack].versions for stack in having),
        free=tuple(stacks[stack].versions for stack in stacks if stack in free),
    )


def facts_of(workload: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a workload that are known by its parameters, as of a reader's job."""
    parts = split_workload(workload)
    if parameters.get("persistence_threshold") == _PERSISTENT:
        return {}  # a tiny model is persistent as a whole, as no job's is
    found: dict[str, Any] = {"device": "cpu" if parts.device == "cpu" else "cuda"}
    if parts.scenario == _TRAINER_LORA:
        found |= _trainer_lora(parameters)
    elif parts.scenario == "trainer_resume":
        found |= _trainer_resume(parameters)
    elif program := next((name for name in _PROGRAMS if parts.scenario.startswith(name)), ""):
        found |= _PROGRAMS[program]
    elif among(parameters.get("zero_stage"), BY_NAME["zero_stage"].known) and "micro_batch_size" in parameters:
        found |= _of_engine(parts.scenario, parameters)
    facts, _ = merged_facts(Fact(name=name, value=value, source="") for name, value in found.items())
    return {name: fact.value for name, fact in facts.items()}


def _of_engine(scenario: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a job that is written on an engine, or on Trainer, whose parameters are factors."""
    values = factor_values({**UNNAMED, **parameters})
    trainer = "trainer" in scenario
    schedule = {None: "WarmupLR" if values["warmup"] else "none"}
    return {
        **{name: value for name, value in values.items() if value != "auto"},
        "trainer": trainer,
        "fsdp": False,
        "scheduler": schedule.get(values["schedule"], values["schedule"]),
        "load_universal": values["universal"],
        "frozen_weights": bool(values["frozen"] or values["lora_rank"]),
    }


def _trainer_resume(parameters: Mapping[str, Any]) -> dict[str, Any]:
    settings, rank = str(parameters["settings"]), parameters["lora_rank"]
    return {
        "trainer": True,
        "fsdp": False,
        "zero_stage": int(settings.removeprefix("zero")[0]),
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
    stages = {"zero1": 1, "zero2": 2, "zero3": 3}
    checkpointing = parameters["gradient_checkpointing"]
    return {
        "trainer": True,
        "fsdp": False,
        "zero_stage": next(stage for name, stage in stages.items() if settings.startswith(name)),
        "scheduler": "WarmupDecayLR" if "_scheduler" in settings else "none",
        "warmup_steps": parameters["schedule_warmup"],
        "lora_rank": parameters["lora_rank"],
        "dtype": "bf16",
        "world_size": 2,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "gradient_checkpointing": "reentrant" if checkpointing else "none",
        "evaluate": parameters["evaluate"] != "no",
        "checkpoint": False,
        "offload_optimizer": False,
        "offload_param": False,
        "torch_autocast": False,
        "zero_init": settings.startswith("zero3"),
        "autocast_adapter_dtype": parameters["lora_rank"] > 0,
    }
