"""Stored failures that match a crash, and their problems: since when, until when, and which release to use. Pure.

A crash matches a stored failure if class and message agree as far as both are kept (`dsregress.probe.border.faults`),
and, if the message is short, the file that raised it too. A job that ran out of memory is matched against simulated
runs that hold more than they need in the same phase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec
from packaging.version import InvalidVersion, Version

from dsregress.advice.assessment import Assessment, assess
from dsregress.advice.card_rooms import CardRooms
from dsregress.advice.diagnosis.crash import Crash
from dsregress.compare import Comparison, Problem, ProblemKind, Thresholds, compare
from dsregress.compare.metrics import OUTCOME
from dsregress.compare.outcomes import fault_of, signature_of, stage_of, without_sizes
from dsregress.compare.problems import unaffected
from dsregress.compare.release_ranges import in_version_order
from dsregress.model import Failed, OutOfMemory, Passed, Result, Stack, TimedOut, read_signature
from dsregress.store import newest_by_cell
from dsregress.wording.names import varied_axes, version_of

#: A shorter message is shared by many faults.
_TELLING = 36

#: The phase by a crash's frames -> its names in results: of a program, and of a built-in job.
_PHASES = {"load": ("load", "init"), "generate": ("generate", "forward")}


class MatchedProblem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of stored results that a crash may be."""

    source: str  #: folder or bundle
    package: str  #: whose releases tell the affected stacks from the others
    comparison: Comparison
    assessment: Assessment
    is_same_place: bool  #: the traceback goes through the file that the stored failure names
    stack: Stack  #: the affected one that is nearest to the text's versions
    beside: Stack | None  #: one without it: the release to use, else a measured neighbor
    has_version: (
        bool | None
    )  #: True if the text's version has it; None if the text mentions none, or it was not measured


def failures(results: Sequence[Result]) -> set[tuple[str, str]]:
    """Return the distinct failures of releases, each by stage and error."""
    broken = (one.outcome for one in results if isinstance(one.outcome, (Failed, OutOfMemory, TimedOut)))
    return {(stage_of(outcome), fault_of(outcome)) for outcome in broken}


def matching(crash: Crash, results: Sequence[Result]) -> list[Result]:
    """Return the results that failed as ``crash`` did."""
    return [one for one in results if isinstance(one.outcome, Failed) and _is_failure(crash, one.outcome)]


def of_crash(
    crash: Crash, source: str, results: Sequence[Result], package: str, baseline: str, thresholds: Thresholds
) -> list[MatchedProblem]:
    """Return the problems of one source that are failures like ``crash``, the gravest first."""
    latest = list(newest_by_cell(results).values())
    matched = matching(crash, latest)
    cells = {(one.cell.stack.id, one.cell.workload) for one in matched}
    if not cells:
        return []
    comparison = _comparison_of(latest, {workload for _, workload in cells}, package, baseline, thresholds)
    return [
        _matched(crash, source, comparison, one, package)
        for one in assess(comparison, CardRooms(comparison))
        if one.problem.worst.metric == OUTCOME.name
        and any((found.stack, found.workload) in cells for found in one.problem.findings)
    ]


def of_memory(
    crash: Crash, source: str, results: Sequence[Result], package: str, baseline: str, thresholds: Thresholds
) -> list[MatchedProblem]:
    """Return the problems of one source that ``crash``'s version may have, and in which simulated runs run out of memory in
    the crash's phase."""
    simulated = [
        one for one in newest_by_cell(results).values() if one.cell.device == "sim" and "gpu" in one.cell.parameters
    ]
    through_it = any(frame.package == package for frame in crash.frames)
    on_host = crash.memory is not None and crash.memory.where == "host"
    if on_host or not simulated or not crash.phase or not (through_it or package in crash.versions):
        return []
    workloads = {one.cell.workload for one in simulated}
    comparison = _comparison_of(simulated, workloads, package, baseline, thresholds)
    phases = _PHASES.get(crash.phase, (crash.phase,))
    found = [
        _matched(crash, source, comparison, one, package)
        for one in assess(comparison, CardRooms(comparison))
        if one.kind is ProblemKind.OUT_OF_MEMORY and one.problem.worst.phase in phases
    ]
    return [one for one in found if one.has_version is not False and _runs_stage(one, crash.zero_stages)]


def _runs_stage(one: MatchedProblem, stages: Collection[int]) -> bool:
    """Return True if an affected workload runs one of these stages of ZeRO, or if no stages are given."""
    parameters = (one.comparison.parameters[workload] for workload in one.assessment.problem.affected)
    return not stages or any(own.get("zero_stage", 0) in stages for own in parameters)


def _comparison_of(
    results: Sequence[Result], workloads: Collection[str], package: str, baseline: str, thresholds: Thresholds
) -> Comparison:
    """Return a comparison of these workloads alone. The other workloads count only as unaffected by its problems."""
    chosen = [one for one in results if one.cell.workload in workloads]
    stacks = in_version_order(list({one.cell.stack.id: one.cell.stack for one in chosen}.values()))
    base = next((stack for stack in stacks if stack.versions.get(package) == baseline), stacks[0])
    comparison = compare(chosen, base.id, thresholds, lambda _: None)
    passed: dict[str, set[str]] = defaultdict(set)
    for one in results:
        if isinstance(one.outcome, Passed):
            passed[one.cell.workload].add(one.cell.stack.id)
    parameters = {one.cell.workload: one.cell.parameters for one in results}
    problems = tuple(
        msgspec.structs.replace(one, unaffected=tuple(sorted(unaffected(one.affected, one.having, passed))))
        for one in comparison.problems
    )
    return msgspec.structs.replace(comparison, problems=problems, parameters={**parameters, **comparison.parameters})


def _matched(crash: Crash, source: str, comparison: Comparison, one: Assessment, package: str) -> MatchedProblem:
    problem = one.problem
    by_id = {stack.id: stack for stack in comparison.stacks}
    package = _package_at_fault(comparison, problem, package)
    mentioned = crash.versions.get(package, "")

    def with_version(ids: Sequence[str]) -> list[Stack]:
        return [by_id[name] for name in ids if version_of(by_id[name], package) == mentioned]

    having = with_version(problem.having)
    stack = having[-1] if having else by_id[problem.worst.stack]
    beside = one.release or problem.after or problem.before
    failed = (signature_of(found.outcome) for found in problem.findings if found.outcome is not None)
    files = {signature.file for signature in failed if signature is not None}
    return MatchedProblem(
        source=source,
        package=package,
        comparison=comparison,
        assessment=one,
        is_same_place=any(_goes_through(crash, file) for file in files),
        stack=stack,
        beside=by_id.get(beside),
        has_version=True
        if having
        else _between(mentioned, by_id.get(problem.before), by_id.get(problem.after), package),
    )


def _package_at_fault(comparison: Comparison, problem: Problem, package: str) -> str:
    """Return the package whose releases are other ones in the affected stacks than in those without the problem: the given
    one if several are, or none."""
    beside = [stack for stack in comparison.stacks if stack.id in (problem.before, problem.after)] or comparison.stacks
    affected = [stack for stack in comparison.stacks if stack.id == problem.worst.stack]
    axes = [axis for axis in varied_axes([*affected, *beside]) if axis != "python"]
    return axes[0] if axes and package not in axes else package


def _between(mentioned: str, before: Stack | None, after: Stack | None, package: str) -> bool | None:
    """Return False for a version that is not between the neighbors without a problem, else None: it may have the problem."""
    try:
        own = Version(mentioned)
        if before is not None and own <= Version(version_of(before, package)):
            return False
        return False if after is not None and own >= Version(version_of(after, package)) else None
    except InvalidVersion:
        return None


def _is_failure(crash: Crash, stored: Failed) -> bool:
    signature = read_signature(stored.signature)
    if not _is_message(crash, signature.error, signature.words):
        return False
    return len(signature.words) >= _TELLING or _goes_through(crash, signature.file)


def _is_message(crash: Crash, error: str, message: str) -> bool:
    """Return True if the classes agree, and one message begins the other or contains its beginning: either may be cut, and
    some lack torch's own prefix. Sizes in them may differ."""
    mine, message = without_sizes(crash.message), without_sizes(message)
    if crash.error != error or not mine or not message:
        return False
    if mine.startswith(message):
        return True
    return min(len(mine), len(message)) >= _TELLING and (mine[:_TELLING] in message or message[:_TELLING] in mine)


def _goes_through(crash: Crash, file: str) -> bool:
    return any(frame.file == file for frame in crash.frames)
