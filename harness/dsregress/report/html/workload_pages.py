"""The pages of one workload: its memory, the cards that it fits, the releases to pin, and its metrics over the releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from dsregress.compare.step_times import clocked_ratio_text
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.html.job_words import job_words
from dsregress.report.html.page import FindingLine, Page
from dsregress.report.html.workload_facts import MatrixCell, MetricSeries, WorkloadFacts
from dsregress.report.release_verdicts import ReleaseVerdicts
from dsregress.report.rows import Row
from dsregress.report.verdict_words import basis_text, settings_text
from dsregress.wording.quantities import short_quantity

#: Charts of one page; the other series are in its tables.
_MOST_CHARTS = 6


class PinAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """The release to pin."""

    name: str = ""  #: empty if each is ruled out
    words: str = ""  #: what it depends on, and what the answer does not rest on
    page: str = ""


class StackRow(msgspec.Struct, frozen=True, kw_only=True):
    """One release on the workload."""

    at: int  #: its place among the releases of the frame
    cell: MatrixCell
    peaks: tuple[str, ...]  #: of device memory, by phase
    time: str
    time_verdict: str
    outcome: str


class WorkloadPage(Page, frozen=True, kw_only=True):
    """One workload over all releases."""

    template: ClassVar[str] = "workload.html"
    workload: str
    trend: str
    configuration: str
    parameters: tuple[tuple[str, str], ...]
    pin: PinAdvice
    labels: tuple[str, ...]  #: names of all releases
    memory: tuple[tuple[str, tuple[float | None, ...]], ...]  #: phase -> peak of device memory by release
    rows: tuple[StackRow, ...]
    cards: tuple[tuple[str, tuple[str, ...]], ...]  #: card -> verdict by release
    lines: tuple[FindingLine, ...]


class SeriesChart(msgspec.Struct, frozen=True, kw_only=True):
    """One metric over the releases."""

    title: str
    unit: str
    exact: bool
    points: tuple[float | None, ...]
    marks: tuple[int, ...]  #: where it changed
    texts: tuple[str, ...]  #: the points in words
    changes: tuple[tuple[str, str], ...]  #: release, and what changed with it


class SteadySeries(msgspec.Struct, frozen=True, kw_only=True):
    """A metric that did not change, and its value."""

    title: str
    text: str


class TrendPage(Page, frozen=True, kw_only=True):
    """The metrics of one workload over all releases."""

    template: ClassVar[str] = "trend.html"
    workload: str
    page: str
    labels: tuple[str, ...]
    charted: tuple[SeriesChart, ...]
    more: tuple[str, ...]  #: titles of the series that changed too
    steady: tuple[SteadySeries, ...]


def workload_page(
    context: ReportContext,
    facts: WorkloadFacts,
    cells: Mapping[str, MatrixCell],
    findings: Sequence[Row],
    verdicts: ReleaseVerdicts,
) -> WorkloadPage:
    """Return the page of a workload. ``cells`` and ``findings`` are its own."""
    times = context.times_of(facts.workload)
    words, rest = job_words(facts.parameters, facts.device)
    rows = [
        StackRow(
            at=at,
            cell=cells[stack],
            peaks=tuple(_bytes(values[at]) for _, values in facts.memory),
            time=clocked_ratio_text(times[stack]) if stack in times else "-",
            time_verdict=times[stack].verdict if stack in times else "",
            outcome=facts.outcomes[stack],
        )
        for at, stack in enumerate(context.comparison.names)
        if stack in facts.outcomes
    ]
    return WorkloadPage(
        title=facts.workload,
        workload=facts.workload,
        trend=urls.trend_page(facts.workload),
        configuration=words,
        parameters=tuple(rest),
        pin=_pin(context, facts.workload, verdicts),
        labels=tuple(context.comparison.names.values()),
        memory=facts.memory,
        rows=tuple(rows),
        cards=facts.cards,
        lines=tuple(FindingLine.of(row) for row in findings),
    )


def trend_page(context: ReportContext, facts: WorkloadFacts) -> TrendPage:
    """Return the page of a workload's metrics: the series that changed, charted up to a limit, then the others."""
    return TrendPage(
        title=f"Trend of {facts.workload}",
        workload=facts.workload,
        page=urls.workload_page(facts.workload),
        labels=tuple(context.comparison.names.values()),
        charted=tuple(_chart(context, facts, series) for series in facts.moved[:_MOST_CHARTS]),
        more=tuple(series.title for series in facts.moved[_MOST_CHARTS:]),
        steady=tuple(SteadySeries(title=series.title, text=_oldest_value(series)) for series in facts.still),
    )


def _chart(context: ReportContext, facts: WorkloadFacts, series: MetricSeries) -> SeriesChart:
    changes = [change for change in facts.changes if change.series == series.title]
    return SeriesChart(
        title=series.title,
        unit=series.unit,
        exact=series.exact,
        points=series.values,
        marks=series.changes,
        texts=tuple(series.text(at) for at in range(len(series.values))),
        changes=tuple((context.name_of(change.stack), change.text) for change in changes),
    )


def _oldest_value(series: MetricSeries) -> str:
    """Return, in words, the value of the oldest release that was measured."""
    return next((series.text(at) for at, value in enumerate(series.values) if value is not None), "-")


def _bytes(value: float | None) -> str:
    return "-" if value is None else short_quantity(value, "bytes")


def _pin(context: ReportContext, workload: str, verdicts: ReleaseVerdicts) -> PinAdvice:
    """Return the newest release that nothing rules out."""
    stack = verdicts.pick(workload)
    if not stack:
        return PinAdvice()
    name, answer = context.name_of(stack), verdicts.advised(stack, workload)
    words = f"{settings_text(answer)}{basis_text(answer)}" if answer is not None else ""
    return PinAdvice(name=name, words=words, page=urls.release_page(stack))
