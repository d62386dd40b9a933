"""The faults that a change brings: a comparison without those that its baseline has too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from dsregress.compare.comparison import Comparison, Group, Problem
from dsregress.model import Finding
from dsregress.wording.quantities import plural

#: Kinds of findings that need no baseline, so that it can have them as well.
_ABSOLUTE = ("wrong", "failed")


def without_old_faults(comparison: Comparison) -> Comparison:
    """Return the comparison without the findings of the baseline, and those that it shares with others in the same workload
    and phase; a note counts what they come to."""
    baseline = comparison.baseline
    old = {_fault_key(found) for found in comparison.findings if found.stack == baseline and found.kind in _ABSOLUTE}

    def is_new(found: Finding) -> bool:
        return found.stack != baseline and not (found.kind in _ABSOLUTE and _fault_key(found) in old)

    groups = [list(filter(is_new, group.findings)) for group in comparison.groups]
    problems = [_only_new(problem, filter(is_new, problem.findings), baseline) for problem in comparison.problems]
    kept = tuple(problem for problem in problems if problem is not None)
    left_out = [problem for problem, new in zip(comparison.problems, problems, strict=True) if new is None]
    return msgspec.structs.replace(
        comparison,
        groups=tuple(Group(found[0], tuple(found[1:])) for found in groups if found),
        problems=kept,
        small=tuple(found for found in comparison.small if is_new(found)),
        notes=(*comparison.notes, *_notes(left_out)),
    )


def _notes(left_out: Sequence[Problem]) -> Iterator[str]:
    """Yield what is left out; a job that runs in neither commit by its reason, as nothing is known of it then."""
    for found in (problem.findings[0] for problem in left_out if problem.findings[0].kind == "failed"):
        yield f"runs in neither commit: {found.workload}: {found.message}"
    if left_out:
        yield f"{plural(len(left_out), 'problem')} left out: the commit before has them too"


def _fault_key(found: Finding) -> tuple[str, str, str, str]:
    return found.workload, found.metric, found.phase, found.kind


def _only_new(problem: Problem, new: Iterable[Finding], baseline: str) -> Problem | None:
    """Return a problem with its new findings; None if it has none."""
    findings = tuple(new)
    if not findings:
        return None
    workloads = {found.workload for found in findings}
    affected = {
        workload: tuple(stack for stack in stacks if stack != baseline)
        for workload, stacks in problem.affected.items()
        if workload in workloads
    }
    having = tuple(stack for stack in problem.having if stack != baseline)
    related = tuple(found for found in problem.related if found.workload in workloads and found.stack != baseline)
    return msgspec.structs.replace(problem, findings=findings, related=related, affected=affected, having=having)
