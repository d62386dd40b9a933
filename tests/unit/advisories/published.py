"""Problems of published results, by the source that an advisory names."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from dsregress.advisories.measured_jobs import job_facts
from dsregress.compare import Comparison, Problem
from dsregress.report.context import report_context
from dsregress.report.problem_facts import problem_facts
from dsregress.report.upstream_changes import UpstreamChange
from tests.unit.docs import findings_page, reproducer_page

#: The comparisons that results/findings.md shows, and the default set of before, which has other packages.
COMPARED = (
    ("2026-11-28.jsonl.gz", "0.15.0"),
    ("2026-11-26.jsonl.gz", "0.15.0"),
    ("2026-11-21-bisect.jsonl.gz", "transformers==4.45.2"),
    ("2026-11-24-trainer-lora.jsonl.gz", "0.15.0"),
    ("2026-11-25-autocast.jsonl.gz", "0.16.7"),
    ("2026-11-23-fsdp-lora.jsonl.gz", "transformers==4.49.0"),
    ("2026-11-21-sweep.jsonl.gz", "0.15.0"),
)

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
        facts=job_facts(workload, comparison.parameters[workload]),
        having=tuple(stacks[stack].versions for stack in having),
        free=tuple(stacks[stack].versions for stack in stacks if stack in free),
    )
