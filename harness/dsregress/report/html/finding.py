"""The page of one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from dsregress.compare import Group, StepTime
from dsregress.compare.metrics import BY_NAME, DEVICE_PEAK, DEVICE_RETAINED, STEP_TIME
from dsregress.compare.worst_readings import worst_rank
from dsregress.model import Finding
from dsregress.probe.border.wire import PHASES, REGULAR_PHASES
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.html.history import History, history
from dsregress.report.html.holders import ExplanationOf, Holders, holders_of
from dsregress.report.html.job_words import job_words
from dsregress.report.html.next_steps import next_steps
from dsregress.report.html.page import Page
from dsregress.report.html.workload_facts import WorkloadFacts
from dsregress.report.problem_lines import ProblemLine
from dsregress.report.rows import IMPROVED, WORSE, Row
from dsregress.wording.quantities import quantity

#: Entries of each list of a page.
_MOST = 30

#: As in the tables of the other reports.
_SHORT = {"forward": "fwd", "backward": "bwd"}

#: The metrics that are charted for each phase.
_MARKS = (DEVICE_PEAK, DEVICE_RETAINED)

_KIND = {"wrong": "it fails a check that needs no baseline", "failed": "it does not complete"}
_SECTION = {WORSE: "worse than the baseline", IMPROVED: "better than the baseline"}


class FigureRow(msgspec.Struct, frozen=True, kw_only=True):
    """The finding in one release, in words."""

    stack: str
    page: str
    value: str
    baseline: str
    ratio: str
    interval: str  #: empty if the metric is exact
    rank: str


class MemoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """Device memory of one stack at each mark, in bytes; None where it was not measured."""

    name: str
    points: tuple[float | None, ...]


class MemoryMarks(msgspec.Struct, frozen=True, kw_only=True):
    """Device memory through a step: the peak of each phase, and what is held when it ends."""

    marks: tuple[str, ...]
    lines: tuple[MemoryLine, ...]


class FindingPage(Page, frozen=True, kw_only=True):
    """One row of the findings."""

    template: ClassVar[str] = "finding.html"
    kind: str
    message: str
    stacks: str
    worst: str  #: the stack that the message, and what follows from it, are of
    section: str
    relevant: bool
    problem: str  #: the page of the problem that it belongs to; empty if it belongs to none
    history: History
    metric: str
    phase: str
    figures: tuple[FigureRow, ...]
    memory: MemoryMarks | None
    holders: Holders | None
    configuration: str
    parameters: tuple[tuple[str, str], ...]
    workloads: tuple[tuple[str, str], ...]  #: name and page
    more_workloads: int
    evidence: tuple[str, ...]
    related: tuple[str, ...]
    detail: str  #: the end of the log of what failed
    versions: tuple[tuple[str, str, str], ...]  #: package, the baseline's version, this one's, if they differ
    defaults: tuple[str, ...]
    reproduce: str
    next_steps: tuple[tuple[str, str], ...]  #: what it is for, and the command


def finding_page(
    context: ReportContext,
    row: Row,
    facts: WorkloadFacts,
    beside: Sequence[Row],
    explained: ExplanationOf,
    problem: ProblemLine | None,
    problem_pages: Mapping[int, str],
) -> FindingPage:
    """Return the page of a row of findings. ``problem`` is the one that it belongs to, with its page in ``problem_pages``;
    ``beside`` are the rows of the same workload."""
    times = context.times_of(row.headline.workload)
    found = row.headline
    with_it = {group.headline.stack for group in row.groups}
    having = [stack for stack in context.comparison.names if stack in with_it]
    measured = [s for s in context.comparison.names if s in with_it or _has_verdict(s, found, facts, times)]
    over_releases = history(found, having, measured, context.comparison.names, problem)
    holders = holders_of(context, row.groups, explained)
    words, rest = job_words(facts.parameters, facts.device)
    workloads = list(dict.fromkeys(group.headline.workload for group in row.groups))
    return FindingPage(
        title=f"{row.stack}: {found.message}",
        kind=found.kind,
        message=found.message,
        stacks=row.stack,
        worst=context.name_of(found.stack),
        section=_KIND.get(found.kind) or _SECTION.get(row.section, row.section.lower()),
        relevant=found.relevant,
        problem=problem_pages[problem.number] if problem is not None else "",
        history=over_releases,
        metric=BY_NAME[found.metric].title,
        phase=found.phase,
        figures=tuple(_figure(context, group.headline) for group in _in_version_order(context, row.groups)[:_MOST]),
        memory=_memory_marks(context, found),
        holders=holders,
        configuration=words,
        parameters=tuple(rest),
        workloads=tuple((workload, urls.workload_page(workload)) for workload in workloads[:_MOST]),
        more_workloads=max(0, len(workloads) - _MOST),
        evidence=tuple(line for line in row.evidence if holders is None or line not in holders.lines),
        related=row.related[:_MOST],
        detail=_log_end(context, found),
        versions=tuple(_changed_versions(context, found)),
        defaults=tuple(_defaults(found, beside)[:_MOST]),
        reproduce=row.reproduce,
        next_steps=tuple(next_steps(context, row.groups, over_releases, facts.parameters)),
    )


def _in_version_order(context: ReportContext, groups: Sequence[Group]) -> list[Group]:
    order = {stack: at for at, stack in enumerate(context.comparison.names)}
    return sorted(groups, key=lambda group: order[group.headline.stack])


def _has_verdict(stack: str, found: Finding, facts: WorkloadFacts, times: Mapping[str, StepTime]) -> bool:
    if facts.outcomes.get(stack) != "passed":
        return False
    if BY_NAME[found.metric].family != STEP_TIME.family:
        return True
    return stack not in times or times[stack].verdict != "unknown"


def _figure(context: ReportContext, found: Finding) -> FigureRow:
    return FigureRow(
        stack=context.name_of(found.stack),
        page=urls.release_page(found.stack),
        value=_text(found.value, found.unit),
        baseline=_text(found.baseline_value, found.unit),
        ratio=f"{found.ratio:.3g}" if found.ratio is not None else "-",
        interval=f"{found.interval[0]:.2f} to {found.interval[1]:.2f}" if found.interval else "",
        rank="-" if found.rank is None else str(found.rank),
    )


def _text(value: object, unit: str) -> str:
    if value is None:
        return "-"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return quantity(value, unit)
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= 300 else f"{text[:300]} ..."


def _memory_marks(context: ReportContext, found: Finding) -> MemoryMarks | None:
    """Return the memory of both stacks; None if the finding is not about memory, or nothing was recorded."""
    if BY_NAME[found.metric].fails != "memory":
        return None
    cells = {
        stack: cell
        for stack in dict.fromkeys((context.comparison.baseline, found.stack))
        if (cell := context.comparison.cells.of(stack, found.workload)) is not None and cell.recorded
    }
    had = {row.phase for cell in cells.values() for row in cell.exact}
    phases = [phase for phase in PHASES if phase in REGULAR_PHASES or phase in had]
    lines = []
    for stack, cell in cells.items():
        readings = [worst_rank(cell.exact, metric, phase) for phase in phases for metric in _MARKS]
        points = tuple(reading.value if reading else None for reading in readings)
        lines.append(MemoryLine(name=context.name_of(stack), points=points))
    marks = [f"{metric.heading} {_SHORT.get(phase, phase)}" for phase in phases for metric in _MARKS]
    return MemoryMarks(marks=tuple(marks), lines=tuple(lines)) if lines else None


def _defaults(found: Finding, beside: Sequence[Row]) -> list[str]:
    """Return the changed defaults of the same stack on the same workload, which may be the cause."""
    if found.kind == "changed":
        return []
    return [
        row.message
        for row in beside
        if row.kind == "changed" and found.stack in {group.headline.stack for group in row.groups}
    ]


def _changed_versions(context: ReportContext, found: Finding) -> list[tuple[str, str, str]]:
    by_id = context.stacks
    base, own = by_id.get(context.comparison.baseline), by_id[found.stack]
    if base is None:
        return []
    return [
        (name, base.versions.get(name, "-"), own.versions.get(name, "-"))
        for name in sorted({*base.versions, *own.versions})
        if base.versions.get(name) != own.versions.get(name)
    ]


def _log_end(context: ReportContext, found: Finding) -> str:
    if found.kind != "failed":
        return ""
    cell = context.comparison.cells.of(found.stack, found.workload)
    detail = getattr(cell.result.outcome, "detail", "") if cell is not None else ""
    return str(detail)[-4000:]
