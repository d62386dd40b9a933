"""The pages about all workloads: the matrix, the findings, how two stacks compare, and the method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from harness.compare.metrics import BY_NAME, METRICS
from harness.report import urls
from harness.report.html.page import Conclusions, FindingLine, Page, PageFrame
from harness.report.html.workload_facts import MatrixCell, WorkloadSummary
from harness.report.plain import plain
from harness.report.rows import Row

#: Cells on one page of the matrix: about 250 kB.
_MOST_CELLS = 900

#: Findings on the first page of the matrix, and on the page that lists them.
_MOST_WORST, _MOST_LINES = 8, 400


class WorkloadRow(msgspec.Struct, frozen=True, kw_only=True):
    """One workload over all releases."""

    workload: str
    page: str
    device: str
    cells: tuple[MatrixCell | None, ...]  #: one for each release; None where it was not run


class MatrixPage(Page, frozen=True, kw_only=True):
    """One page of the matrix. The first is the site's first page, and has the conclusions too."""

    template: ClassVar[str] = "matrix.html"
    number: int
    pages: tuple[str, ...]  #: the addresses of all pages of the matrix
    rows: tuple[WorkloadRow, ...]
    devices: tuple[str, ...]
    workloads: int  #: on all pages
    report: Conclusions | None
    worst: tuple[FindingLine, ...]
    evidence: dict[int, str]  #: number of a problem -> the page of its worst finding


class FindingsPage(Page, frozen=True, kw_only=True):
    """The list of all findings."""

    template: ClassVar[str] = "findings.html"
    report: Conclusions
    lines: tuple[FindingLine, ...]
    more: int  #: lines beyond the limit


class ComparePage(Page, frozen=True, kw_only=True):
    """The page whose script compares two stacks."""

    template: ClassVar[str] = "compare.html"
    files: tuple[tuple[str, str], ...]  #: name of a stack, and the script with its metrics
    metrics: tuple[tuple[str, str, str, str], ...]  #: name, title, unit, direction


class MetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """A metric in the table of all metrics."""

    title: str
    unit: str
    direction: str
    exact: bool
    fails: str


class MethodPage(Page, frozen=True, kw_only=True):
    """How it was measured."""

    template: ClassVar[str] = "method.html"
    report: Conclusions
    metrics: tuple[MetricRow, ...]


def matrix_pages(
    frame: PageFrame, report: Conclusions, summaries: Sequence[WorkloadSummary], rows: Sequence[Row]
) -> Iterator[tuple[str, MatrixPage]]:
    """``(path, page)``. ``rows`` are all findings, worst first."""
    height = max(1, _MOST_CELLS // max(1, len(frame.releases)))
    count = max(1, -(-len(summaries) // height))
    for number in range(count):
        page = MatrixPage(
            title="Version compatibility",
            number=number,
            pages=tuple(urls.matrix_page(at) for at in range(count)),
            rows=tuple(_row(frame, summary) for summary in summaries[number * height : (number + 1) * height]),
            devices=tuple(sorted({_device(summary) for summary in summaries})),
            workloads=len(summaries),
            report=report if number == 0 else None,
            worst=tuple(FindingLine.of(row) for row in rows[:_MOST_WORST]) if number == 0 else (),
            evidence=_evidence(report, rows) if number == 0 else {},
        )
        yield urls.matrix_page(number), page


def _evidence(report: Conclusions, rows: Sequence[Row]) -> dict[int, str]:
    pages = {
        found.key: urls.finding_page(row.headline) for row in rows for group in row.groups for found in group.findings
    }
    lines = [line for section in report.screen.sections for line in section.problems]
    return {line.number: pages[line.worst.key] for line in lines if line.worst.key in pages}


def findings_page(report: Conclusions, rows: Sequence[Row]) -> FindingsPage:
    lines = tuple(FindingLine.of(row) for row in rows[:_MOST_LINES])
    return FindingsPage(title="Findings", report=report, lines=lines, more=len(rows) - len(lines))


def compare_page(frame: PageFrame) -> ComparePage:
    return ComparePage(
        title="Compare two stacks",
        files=tuple((release.name, urls.stack_data(release.id)) for release in frame.releases),
        metrics=tuple((metric.name, metric.title, metric.unit, metric.direction.name) for metric in METRICS),
    )


def stack_data(stack: str, summaries: Sequence[WorkloadSummary]) -> bytes:
    """A script that hands one stack's metrics to the page that compares: files may not be read from ``file://``."""
    parts = [
        msgspec.json.encode(plain(summary.workload)) + b":" + summary.figures.of(stack)
        for summary in summaries
        if stack in summary.figures.cells
    ]
    name = msgspec.json.encode(urls.stack_data(stack))
    return b"dsregressStack(" + name + b",{\n" + b",\n".join(parts) + b"\n})\n"


def method_page(report: Conclusions) -> MethodPage:
    metrics = [
        MetricRow(
            title=metric.title,
            unit=metric.unit or "-",
            direction=metric.direction.value,
            exact=metric.exact,
            fails=metric.fails or "-",
        )
        for metric in BY_NAME.values()
    ]
    return MethodPage(title="Method", report=report, metrics=tuple(metrics))


def _row(frame: PageFrame, summary: WorkloadSummary) -> WorkloadRow:
    return WorkloadRow(
        workload=summary.workload,
        page=urls.workload_page(summary.workload),
        device=_device(summary),
        cells=tuple(summary.cells.get(release.id) for release in frame.releases),
    )


def _device(summary: WorkloadSummary) -> str:
    return summary.workload.rpartition("/")[2]
