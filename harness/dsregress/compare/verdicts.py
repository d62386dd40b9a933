"""The comparison: results in, findings out. Pure: reads files only through ``detail_of``, and prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dsregress.compare import changed_settings, demands, episodes, exact_differences, notes
from dsregress.compare.comparison import Cells, Comparison, DetailOf, Group, NotJudged, ReadCells
from dsregress.compare.finding_groups import severity
from dsregress.compare.judged import MOST_SMALL, Judged, judge_workloads
from dsregress.compare.metrics import BY_NAME, HOST_CALLS
from dsregress.compare.problems import Measured, problems
from dsregress.compare.release_ranges import in_version_order
from dsregress.compare.result_pairs import ResultIndex
from dsregress.compare.step_times import judge_step_times, undecided_note
from dsregress.config.thresholds import Thresholds
from dsregress.model import Finding, Result, Stack
from dsregress.wording.names import stack_names

#: The functions that grew are looked up for this many findings, worst first.
MOST_EXPLAINED = 200


def compare(results: Iterable[Result], baseline: str, thresholds: Thresholds, detail_of: DetailOf) -> Comparison:
    """Judge every result against the result of the baseline stack (by its id) for the same workload, and against the
    oracles.

    If a cell has several results, the newest counts. Missing and failed results raise nothing: the comparison lists them
    with the reason.
    """
    index = ResultIndex(results, baseline)
    return combine([judge_workloads(index, thresholds)], index.read, baseline, thresholds, detail_of)


def combine(
    parts: Iterable[Judged], read: ReadCells, baseline: str, thresholds: Thresholds, detail_of: DetailOf
) -> Comparison:
    """Combine parts that were judged apart into one comparison, the same as `compare` of all their results. No workload may
    be in two parts. ``read`` reads their cells."""
    parts = list(parts)
    cells = Cells({w: stacks for part in parts for w, stacks in part.stacks_by_workload.items()}, read, detail_of)
    comparable = _comparable(parts)
    control = [time for part in parts for time in part.control]
    raw = [time for part in parts for time in part.step_times]
    timed, times, unknown = judge_step_times(raw, control, thresholds)
    changes = [change for part in parts for change in part.changes]
    changed, settings, lost = changed_settings.judge_changes(changes, cells, baseline, detail_of)
    groups = [group for part in parts for group in part.groups]
    groups = sorted([*groups, *map(Group, (*timed, *changed))], key=lambda group: severity(group.headline))
    groups = _explained(groups, cells, baseline, detail_of)
    known, installed, demanded = _stacks_of(parts)
    stacks = in_version_order(list(known.values()))
    names = stack_names(stacks)
    found = {one.key: one for group in groups for one in group.findings}
    slower = {(one.stack, one.workload): one.key for one in timed}
    all_episodes = [one for part in parts for one in part.episodes]
    all_episodes += episodes.of_step_times(times, slower, baseline)
    parameters = {workload: values for part in parts for workload, values in part.parameters.items()}
    measured = Measured(parameters, _passed(parts), comparable)
    superseded = sum(part.superseded for part in parts)
    remarks = notes.merge_remarks(part.remarks for part in parts)
    return Comparison(
        baseline=baseline,
        stacks=tuple(stacks),
        names=names,
        cells=cells,
        parameters=parameters,
        groups=tuple(groups),
        small=tuple(_small(parts)),
        small_differences=sum(part.small_differences for part in parts),
        not_compared=(
            *(missing for part in parts for missing in part.not_compared),
            *(missing for part in parts for missing in part.untimed),
            *unknown,
        ),
        not_judged=tuple(NotJudged(*missing, cells) for missing, cells in sorted(remarks.not_judged.items())),
        cards=remarks.cards,
        step_times=tuple(times),
        control=tuple(control),
        problems=tuple(problems(all_episodes, found, settings, [stack.id for stack in stacks], measured)),
        notes=(
            *notes.comparison_notes(remarks, baseline, known, names, installed, superseded),
            *demands.demand_notes(demanded, stacks, groups),
            *lost,
            *undecided_note(times, thresholds),
        ),
        passed=sum(part.passed for part in parts),
        ended={workload: stacks for part in parts for workload, stacks in part.ended.items()},
        longest_s={workload: seconds for part in parts for workload, seconds in part.longest_s.items()},
        days={workload: days for part in parts for workload, days in part.days.items()},
        compared=sum(len(stacks) - (baseline in stacks) for stacks in comparable.values()),
        ran=len(cells),
    )


def _stacks_of(
    parts: Sequence[Judged],
) -> tuple[dict[str, Stack], dict[str, dict[str, str]], dict[str, list[str]]]:
    """Return the stacks by id, what is installed in each, and what packages demand."""
    known: dict[str, Stack] = {}
    installed: dict[str, dict[str, str]] = {}
    demanded: dict[str, list[str]] = {}
    for part in reversed(parts):  # the first one that knows a stack has its say
        known.update(part.stacks)
        installed.update(part.installed)
        demanded.update(part.demands)
    return known, installed, demanded


def _passed(parts: Sequence[Judged]) -> dict[str, frozenset[str]]:
    """Return workload -> the stacks that it ran to the end with."""
    return {
        workload: frozenset(stacks).difference(part.ended.get(workload, ()))
        for part in parts
        for workload, stacks in part.stacks_by_workload.items()
    }


def _small(parts: Sequence[Judged]) -> list[Finding]:
    """Return the first of the small differences."""
    found: list[Finding] = []
    for part in parts:
        found += part.small[: MOST_SMALL - len(found)]
    return found


def _comparable(parts: Sequence[Judged]) -> dict[str, frozenset[str]]:
    """Return workload -> the stacks of its cells that have a verdict."""
    return {
        workload: frozenset(stacks).difference(part.without_verdict.get(workload, ()))
        for part in parts
        for workload, stacks in part.stacks_by_workload.items()
    }


def _explained(groups: Sequence[Group], cells: Cells, baseline: str, detail_of: DetailOf) -> list[Group]:
    """Add the names of the functions that grew to the findings on host work that matter most."""
    left = MOST_EXPLAINED
    explained = []
    for group in groups:
        head = group.headline
        if left and head.relevant and BY_NAME[head.metric].family == HOST_CALLS.family:
            left -= 1
            workload = head.workload
            detail, base = (
                detail_of(cell.result) if (cell := cells.of(stack, workload)) else None
                for stack in (head.stack, baseline)
            )
            members = [
                msgspec.structs.replace(m, evidence=(*m.evidence, *exact_differences.grown_functions(m, detail, base)))
                if m.metric == HOST_CALLS.name
                else m
                for m in group.findings
            ]
            group = Group(members[0], tuple(members[1:]))
        explained.append(group)
    return explained
