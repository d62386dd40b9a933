"""Drafts of advisories: problems of a comparison that no advisory knows, as records that a person completes. Pure.

A draft claims what was measured and no more: the releases that were run, and the job as it was. Which facts of the job
decide is for `reproduce` to find out, so that none is a condition yet.
"""

from __future__ import annotations

import msgspec

from dsregress.advice.assessment import assess
from dsregress.advisories.advisory import (
    Advisory,
    AdvisoryKind,
    Evidence,
    MeasuredSymptom,
    ReleaseRange,
    Remedy,
    Ruling,
)
from dsregress.advisories.shipped import read_advisories
from dsregress.compare import ProblemKind
from dsregress.model import split_workload
from dsregress.report.context import ReportContext
from dsregress.report.problem_lines import ProblemLine, problem_lines
from dsregress.wording.names import version_of
from dsregress.wording.quantities import shortened

#: An advisory's title is shorter.
_MOST_TITLE = 90

#: The effect on a job, as advisories name it. A release that does not install says nothing of its training.
_KINDS = {
    ProblemKind.WRONG: AdvisoryKind.TRAINS_WRONG,
    ProblemKind.DIFFERENT: AdvisoryKind.TRAINS_DIFFERENTLY,
    ProblemKind.CRASH: AdvisoryKind.CRASHES,
    ProblemKind.OUT_OF_MEMORY: AdvisoryKind.OUT_OF_MEMORY,
    ProblemKind.LEAK: AdvisoryKind.LEAKS,
    ProblemKind.SAVES: AdvisoryKind.SAVES_DIFFERENTLY,
    ProblemKind.LARGER_CARD: AdvisoryKind.OUT_OF_MEMORY,
    ProblemKind.SLOWER: AdvisoryKind.SLOWER,
    ProblemKind.MORE: AdvisoryKind.MORE_WORK,
}


class Draft(msgspec.Struct, frozen=True):
    """A draft, and the ids of advisories that were published after its day and know the problem."""

    record: Advisory
    known_since: tuple[str, ...] = ()


def draft_advisories(context: ReportContext, package: str, version: str, day: str) -> list[Draft]:
    """Return a draft for each problem that the release ``version`` of ``package`` has, that the baseline has not, and that
    no advisory published by that ``day`` (``2026-11-27``) knows."""
    stack = next(
        (name for name, one in context.stacks.items() if version_of(one, package) == version),
        context.comparison.baseline,
    )
    lines = problem_lines(context, assess(context.comparison, context.rooms))
    known = {one.id for one in read_advisories() if one.published <= day}
    new = [line for line in lines if _is_new(context, line, stack) and known.isdisjoint(line.advisories)]
    return [
        Draft(
            _draft(
                context,
                line,
                ReleaseRange(package=package, affected=(version,), unaffected=_free(context, line, package)),
                f"DRAFT-{package}-{version}-{number}",
                day,
            ),
            line.advisories,
        )
        for number, line in enumerate(new, 1)
    ]


def _is_new(context: ReportContext, line: ProblemLine, stack: str) -> bool:
    return stack in line.having and context.comparison.baseline not in line.having and line.kind in _KINDS


def _free(context: ReportContext, line: ProblemLine, package: str) -> tuple[str, ...]:
    """Return the releases that were measured without the problem."""
    return tuple(version_of(context.stacks[stack], package) for stack in line.free)


def _draft(context: ReportContext, line: ProblemLine, found: ReleaseRange, name: str, day: str) -> Advisory:
    worst = line.worst
    partners = {key: one for key, one in context.stacks[worst.stack].versions.items() if key != found.package}
    is_taste = line.kind.has_no_right_side or line.kind.is_cost
    return Advisory(
        id=name,
        title=shortened(line.text, _MOST_TITLE),
        kind=_KINDS[line.kind],
        ruling=Ruling.CHANGE if is_taste else Ruling.FAULT,
        ranges=(found,),
        in_some_jobs=True,
        shown_by=(MeasuredSymptom(metrics=(worst.metric,), phase=worst.phase),),
        sees=line.text,
        detail="A draft: which facts of the job decide is not known, and nobody has looked at it. "
        f"Measured on {', '.join(line.workloads)}.",
        remedies=tuple(Remedy(text=f"use {found.package} {one}", package=found.package, version=one)
                       for one in found.unaffected[-1:]),
        evidence=Evidence(
            cells=len(line.workloads),
            devices=tuple(sorted({split_workload(one).device for one in line.workloads})),
            stack=", ".join(f"{key} {one}" for key, one in sorted(partners.items())),
        ),
        published=day,
        modified=day,
    )  # fmt: skip
