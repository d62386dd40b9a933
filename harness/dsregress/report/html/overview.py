"""The pages about all workloads: the matrix, the findings, the comparison of two stacks, and the method."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from dsregress.compare.metrics import BY_NAME, METRICS
from dsregress.config.thresholds import Thresholds
from dsregress.report import urls
from dsregress.report.html.page import Conclusions, FindingLine, Page, PageFrame
from dsregress.report.html.upgrade_form import UpgradeForm
from dsregress.report.html.workload_facts import MatrixCell, WorkloadSummary
from dsregress.report.plain_text import plain

#: Cells on one page of the matrix, which keep it below 100 kB; the first page has other content as well.
_MOST_CELLS, _MOST_CELLS_FIRST = 240, 70

#: Findings on the first page of the matrix, and on each page that lists them.
_MOST_WORST, _MOST_LINES = 8, 150


class Span(msgspec.Struct, frozen=True):
    """Adjacent releases with the same verdict, for the same reason."""

    cell: MatrixCell | None  #: that of the newest of them; None if they were not run
    releases: int


class WorkloadRow(msgspec.Struct, frozen=True, kw_only=True):
    """One workload over all releases, the newest first."""

    workload: str
    page: str
    device: str
    spans: tuple[Span, ...]


class MatrixPage(Page, frozen=True, kw_only=True):
    """One page of the matrix. The first is the site's first page, and has the conclusions too."""

    template: ClassVar[str] = "matrix.html"
    number: int
    pages: tuple[str, ...]  #: the addresses of all pages of the matrix
    search: str  #: the address of what is on all of them; empty if this is the only one
    rows: tuple[WorkloadRow, ...]
    devices: tuple[str, ...]
    workloads: int  #: on all pages
    report: Conclusions | None
    upgrade: UpgradeForm
    worst: tuple[FindingLine, ...]
    problem_pages: dict[int, str]  #: by the problem's number


class FindingsPage(Page, frozen=True, kw_only=True):
    """One page of the list of all findings."""

    template: ClassVar[str] = "findings.html"
    number: int
    pages: tuple[str, ...]  #: the addresses of all pages of the list
    search: str  #: the address of what is on all of them; empty if this is the only one
    report: Conclusions
    lines: tuple[FindingLine, ...]
    kinds_found: tuple[str, ...]  #: on all pages, and so are the devices
    devices: tuple[str, ...]


class ComparedMetric(msgspec.Struct, frozen=True, kw_only=True):
    """A metric, for the script: a difference matters from ``floor`` and from ``share`` of the first value on."""

    name: str
    title: str
    unit: str
    direction: str
    floor: float
    share: float


class ComparePage(Page, frozen=True, kw_only=True):
    """The page whose script compares two stacks."""

    template: ClassVar[str] = "compare.html"
    files: tuple[tuple[str, str], ...]  #: name of a stack, and the script with its metrics
    metrics: tuple[ComparedMetric, ...]


class MetricRow(msgspec.Struct, frozen=True, kw_only=True):
    """A metric in the table of all metrics."""

    title: str
    unit: str
    direction: str
    exact: bool
    fails: str


class MethodPage(Page, frozen=True, kw_only=True):
    """The page about the method of measurement."""

    template: ClassVar[str] = "method.html"
    report: Conclusions
    metrics: tuple[MetricRow, ...]


def matrix_pages(
    paged: Sequence[tuple[WorkloadRow, ...]],
    report: Conclusions,
    lines: Sequence[FindingLine],
    problem_pages: dict[int, str],
    upgrade: UpgradeForm,
) -> Iterator[tuple[str, MatrixPage]]:
    """Yield ``(path, page)`` of the matrix. ``paged`` are the `matrix_rows`, ``lines`` all findings, worst first,
    ``problem_pages`` the addresses of the problems' pages by their numbers."""
    rows = [row for page in paged for row in page]
    addresses = tuple(urls.matrix_page(at) for at in range(len(paged)))
    for number, own in enumerate(paged):
        page = MatrixPage(
            title="Version compatibility",
            number=number,
            pages=addresses,
            rows=own,
            search=urls.SEARCH_DATA if len(paged) > 1 else "",
            devices=tuple(sorted({row.device for row in rows})),
            workloads=len(rows),
            report=report if number == 0 else None,
            upgrade=upgrade if number == 0 else UpgradeForm(),
            worst=tuple(lines[:_MOST_WORST]) if number == 0 else (),
            problem_pages=problem_pages if number == 0 else {},
        )
        yield addresses[number], page


def matrix_rows(frame: PageFrame, summaries: Sequence[WorkloadSummary]) -> list[tuple[WorkloadRow, ...]]:
    """Return the rows of each page of the matrix; there is at least one page."""
    pages: list[list[WorkloadRow]] = [[]]
    left = _MOST_CELLS_FIRST
    for row in (_row(frame, summary) for summary in summaries):
        if pages[-1] and len(row.spans) > left:
            pages.append([])
            left = _MOST_CELLS
        pages[-1].append(row)
        left -= len(row.spans)
    return [tuple(page) for page in pages]


def findings_pages(report: Conclusions, lines: Sequence[FindingLine]) -> Iterator[tuple[str, FindingsPage]]:
    """Yield ``(path, page)`` of the list of findings; at least one."""
    starts = range(0, max(1, len(lines)), _MOST_LINES)
    addresses = tuple(urls.findings_page(number) for number in range(len(starts)))
    for number, start in enumerate(starts):
        yield (
            addresses[number],
            FindingsPage(
                title="Findings",
                number=number,
                pages=addresses,
                search=urls.SEARCH_DATA if len(starts) > 1 else "",
                report=report,
                lines=tuple(lines[start : start + _MOST_LINES]),
                kinds_found=tuple(dict.fromkeys(line.kind for line in lines)),
                devices=tuple(sorted({line.device for line in lines})),
            ),
        )


def search_data(paged: Sequence[tuple[WorkloadRow, ...]], lines: Sequence[FindingLine]) -> bytes:
    """Return a script that passes all workloads and findings to the pages that show a part of them: for each its text, the
    text shown next to it, its page, its kinds, its device, and the number of the page of the list that has it."""
    workloads = [
        (
            plain(row.workload),
            "",
            row.page,
            sorted({span.cell.kind for span in row.spans if span.cell}),
            row.device,
            number,
        )
        for number, page in enumerate(paged)
        for row in page
    ]
    findings = [
        (
            plain(line.message),
            plain(f"{line.stack}, {line.workload}"),
            line.page,
            [line.kind],
            line.device,
            at // _MOST_LINES,
        )
        for at, line in enumerate(lines)
    ]
    return b"dsregressSearch(" + msgspec.json.encode({"matrix": workloads, "findings": findings}) + b")\n"


def compare_page(frame: PageFrame, thresholds: Thresholds) -> ComparePage:
    """Return the page that compares two stacks. ``thresholds`` decide which differences matter."""
    return ComparePage(
        title="Compare two stacks",
        files=tuple((release.name, urls.stack_data(release.id)) for release in frame.releases),
        metrics=tuple(
            ComparedMetric(
                name=metric.name,
                title=metric.title,
                unit=metric.unit,
                direction=metric.direction.name,
                floor=metric.floor(thresholds) if metric.floor is not None else 0.0,
                share=metric.share(thresholds) if metric.share is not None else 0.0,
            )
            for metric in METRICS
        ),
    )


def stack_data(stack: str, summaries: Sequence[WorkloadSummary]) -> bytes:
    """Return a script that passes one stack's metrics to the page that compares: on ``file://`` pages, scripts cannot read
    files."""
    parts = [
        msgspec.json.encode(plain(summary.workload)) + b":" + summary.figures.of(stack)
        for summary in summaries
        if stack in summary.figures.cells
    ]
    name = msgspec.json.encode(urls.stack_data(stack))
    return b"dsregressStack(" + name + b",{\n" + b",\n".join(parts) + b"\n})\n"


def method_page(report: Conclusions) -> MethodPage:
    """Return the page about the method, with a table of all metrics."""
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
    newest_first = [summary.cells.get(release.id) for release in reversed(frame.releases)]
    runs = [list(run) for _, run in itertools.groupby(newest_first, key=_span_key)]
    return WorkloadRow(
        workload=summary.workload,
        page=urls.workload_page(summary.workload),
        device=_device_text(summary),
        spans=tuple(Span(run[0], len(run)) for run in runs),
    )


def _span_key(cell: MatrixCell | None) -> tuple[str, str, str] | None:
    """Return the key by which adjacent cells are merged into one span."""
    return None if cell is None else (cell.kind, cell.text, cell.page)


def _device_text(summary: WorkloadSummary) -> str:
    return summary.workload.rpartition("/")[2]
