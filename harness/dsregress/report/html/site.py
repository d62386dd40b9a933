"""Build a folder of pages from a comparison. Pages that did not change since the last build are not rendered or written
again."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import msgspec

from dsregress.compare import Group
from dsregress.compare.comparison import EVERYTHING
from dsregress.errors import ResultsError
from dsregress.report import urls
from dsregress.report.comparison.json import comparison_json_chunks
from dsregress.report.context import ReportContext
from dsregress.report.html import advisory_feed, advisory_pages, badges, overview, release_pages, upgrade_form
from dsregress.report.html.finding import finding_page
from dsregress.report.html.holders import ExplanationOf, nothing_explained
from dsregress.report.html.overview import WorkloadRow
from dsregress.report.html.page import Conclusions, FindingLine, PageFrame
from dsregress.report.html.problem import ProblemPage, problem_page
from dsregress.report.html.rendering import Renderer
from dsregress.report.html.site_files import SiteFiles
from dsregress.report.html.workload_facts import MatrixCell, WorkloadSummary, matrix_cell, workload_facts
from dsregress.report.html.workload_pages import trend_page, workload_page
from dsregress.report.problem_facts import problem_facts
from dsregress.report.release_verdicts import ReleaseVerdicts
from dsregress.report.report_view import report_view
from dsregress.report.rows import Row, all_rows, section_of

_T = TypeVar("_T")


class Spread(Protocol):
    """Calls ``work`` for some families of workloads (or files) at a time, perhaps on all processors, and returns the results
    in their order: `dsregress.store.bulk.map_families`."""

    def __call__(self, work: Callable[[list[str]], _T], families: Iterable[Sequence[str]]) -> Iterable[_T]: ...


#: Up to this many cells, the site also has the JSON report (2 kB each).
_MOST_IN_JSON = 5_000

#: The largest changes of one workload, for the pages about all workloads.
_MOST_CHANGES = 40


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a build."""

    pages: int  #: files of the site
    written: int  #: of them, in this build
    removed: int  #: files of an earlier build that this one does not have


def one_after_another(work: Callable[[list[str]], _T], families: Iterable[Sequence[str]]) -> Iterator[_T]:
    """Work on one family after another: the simplest `Spread`."""
    for family in families:
        yield work(list(family))


def build_site(
    context: ReportContext,
    folder: Path,
    *,
    spread: Spread = one_after_another,
    explained: ExplanationOf = nothing_explained,
) -> Built:
    """Write the site into ``folder``. Other files in it stay. Raise ResultsError if the site cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _SiteBuilder(context, folder, explained).run(spread)
    except OSError as error:
        raise ResultsError(
            f"cannot be written: {error.strerror}",
            where=str(error.filename or folder),
            hint="give --html another place",
        ) from error


class _SiteBuilder:
    """One build: first every workload's own pages, then the pages about all of them."""

    def __init__(self, context: ReportContext, folder: Path, explained: ExplanationOf) -> None:
        self._context = context
        self._explained = explained
        comparison, report = context.comparison, report_view(context)
        self._conclusions = Conclusions.of(report)
        self._lines = report.screen.problems
        self._problems = {key: line for line in self._lines for key in line.keys}
        self._facts = problem_facts(context)
        by_key = {problem.worst.key: problem for problem in comparison.problems}
        self._numbered = {line.number: by_key[line.worst.key] for line in self._lines}
        self._problem_pages = {
            number: urls.problem_page(one.worst, one.since, one.after) for number, one in self._numbered.items()
        }
        self._verdicts = ReleaseVerdicts(context)
        self._frame = PageFrame.of(context, report)
        self._files = SiteFiles(folder, Renderer(self._frame))
        self._general: dict[str, Callable[[SiteFiles], None]] = {}
        self._rows = all_rows(context)
        self._rows_of: dict[str, list[Row]] = defaultdict(list)  #: by workload
        self._rows_headed: dict[str, list[Row]] = defaultdict(list)  #: by the workload of the worst finding
        for row in self._rows:
            for workload in dict.fromkeys(group.headline.workload for group in row.groups):
                self._rows_of[workload].append(row)
            self._rows_headed[row.headline.workload].append(row)
        self._groups: dict[tuple[str, str], list[Group]] = defaultdict(list)  #: by stack and workload
        for group in comparison.groups:
            self._groups[group.headline.stack, group.headline.workload].append(group)
        self._unjudged = {(left.stack, left.workload) for left in comparison.not_compared if left.what == EVERYTHING}

    def run(self, spread: Spread) -> Built:
        """Write all files, and remove those that only an earlier build had."""
        self._files.begin()
        with _Inherited(self) as inherited:
            parts = spread(partial(_workloads, inherited), [[workload] for workload in self._workloads_in_order()])
            summaries = [summary for part in parts for summary in part]
            for summary in summaries:
                self._files.add(summary.pages, summary.written)
            self._general = dict(self._general_files(summaries))
            for part in spread(partial(_general_files, inherited), [[path] for path in self._general]):
                self._files.add(*part)
        if len(self._context.comparison.cells) <= _MOST_IN_JSON:
            self._files.file("report.json", comparison_json_chunks(self._context))
        self._files.static()
        removed = self._files.finish()
        return Built(pages=len(self._files.digests), removed=removed, written=self._files.written)

    def write_workload(self, workload: str) -> WorkloadSummary:
        """Write every page about one workload alone; return what the other pages need of it."""
        files = self._files.part()
        context, rows = self._context, self._rows_of.get(workload, [])
        ratios = {stack: time.ratio for stack, time in context.times_of(workload).items()}
        if ratios:
            ratios[context.comparison.baseline] = 1.0
        facts = workload_facts(context, workload, ratios)
        cells = self._matrix_cells(workload)
        files.page(urls.workload_page(workload), workload_page(context, facts, cells, rows, self._verdicts))
        files.page(urls.trend_page(workload), trend_page(context, facts))
        for row in self._rows_headed.get(workload, []):
            problem = self._problems.get(row.headline.key)
            pages = self._problem_pages
            page = finding_page(context, row, facts, rows, self._explained, problem, pages)
            files.page(urls.finding_page(row.headline), page)
        return WorkloadSummary(
            workload=workload,
            cells=cells,
            changes=tuple(sorted(facts.changes, key=lambda change: -change.size)[:_MOST_CHANGES]),
            figures=facts.figures,
            pages=files.digests,
            written=files.written,
        )

    def write_general(self, paths: Sequence[str]) -> SiteFiles:
        """Write some of the files about all workloads; return the part of the site with their digests and count."""
        files = self._files.part()
        for path in paths:
            self._general[path](files)
        return files

    def _general_files(self, summaries: Sequence[WorkloadSummary]) -> Iterator[tuple[str, Callable[[SiteFiles], None]]]:
        """Yield ``(path, the function that writes it)``."""
        context, frame, conclusions, rows = self._context, self._frame, self._conclusions, self._rows
        paged = overview.matrix_rows(frame, summaries)
        lines = [FindingLine.of(row) for row in rows]
        form = upgrade_form.upgrade_form(context)
        for path, page in (
            *overview.matrix_pages(paged, conclusions, lines, self._problem_pages, form),
            *overview.findings_pages(conclusions, lines),
            *self._pages_of_problems(lines),
            *advisory_pages.advisory_pages(),
            *release_pages.release_pages(context, frame, rows, summaries, self._verdicts),
            ("trend.html", release_pages.trends_page(context, summaries)),
            ("compare.html", overview.compare_page(frame, context.thresholds)),
            ("method.html", overview.method_page(conclusions)),
        ):
            yield path, partial(SiteFiles.page, path=path, page=page)
        if form.data:
            yield form.data, _write_upgrade
        yield urls.SEARCH_DATA, partial(_write_search, paged=paged, lines=lines)
        for stack in context.comparison.stacks:
            yield urls.stack_data(stack.id), partial(_write_stack, stack=stack.id, summaries=summaries)
        for standing in badges.standings(context, self._verdicts):
            svg, endpoint = f"{badges.path(standing)}.svg", f"{badges.path(standing)}.json"
            yield svg, partial(SiteFiles.page, path=svg, page=badges.picture(standing))
            yield endpoint, partial(SiteFiles.file, path=endpoint, content=badges.endpoint(standing))
        for path, content in advisory_feed.feed_files():
            yield path, partial(SiteFiles.file, path=path, content=content)

    def _pages_of_problems(self, lines: Sequence[FindingLine]) -> Iterator[tuple[str, ProblemPage]]:
        """Yield ``(path, page)`` of each problem. ``lines`` are those of the rows."""
        places: dict[tuple[str, ...], int] = {}
        for place, row in enumerate(self._rows):
            places |= {found.key: place for group in row.groups for found in group.findings}
        for line in self._lines:
            own = [lines[place] for place in sorted({places[key] for key in line.keys if key in places})]
            problem, facts = self._numbered[line.number], self._facts[line.worst.key]
            yield self._problem_pages[line.number], problem_page(self._context, problem, line, facts, own)

    def _matrix_cells(self, workload: str) -> dict[str, MatrixCell]:
        """Return the matrix cells of a workload, by stack."""
        found = {}
        for stack, cell in self._context.comparison.cells.of_workload(workload).items():
            groups = self._groups.get((stack, workload), [])
            has_page = bool(groups) and section_of(groups[0].headline) != ""
            found[stack] = matrix_cell(
                cell,
                groups,
                urls.finding_page(groups[0].headline) if has_page else urls.workload_page(workload),
                baseline=stack == self._context.comparison.baseline,
                judged=(stack, workload) not in self._unjudged,
            )
        return found

    def _workloads_in_order(self) -> list[str]:
        """Return all workloads: those with findings first, the worst first."""
        relevant = [group.headline for group in self._context.comparison.groups if group.headline.relevant]
        return list(dict.fromkeys([*(found.workload for found in relevant), *self._context.comparison.cells.workloads]))


def _write_upgrade(files: SiteFiles) -> None:
    files.file(urls.UPGRADE_DATA, upgrade_form.upgrade_data())


def _write_stack(files: SiteFiles, stack: str, summaries: Sequence[WorkloadSummary]) -> None:
    files.file(urls.stack_data(stack), overview.stack_data(stack, summaries))


def _write_search(files: SiteFiles, paged: Sequence[tuple[WorkloadRow, ...]], lines: Sequence[FindingLine]) -> None:
    files.file(urls.SEARCH_DATA, overview.search_data(paged, lines))


class _Inherited:
    """A builder in the memory of forked processes: pickled as its number, because a comparison is too large to send to
    them."""

    _builders: ClassVar[dict[int, _SiteBuilder]] = {}
    _numbers = itertools.count()

    def __init__(self, builder: _SiteBuilder) -> None:
        self._number = next(self._numbers)
        self._builders[self._number] = builder

    @property
    def builder(self) -> _SiteBuilder:
        return self._builders[self._number]

    def __enter__(self) -> _Inherited:
        return self

    def __exit__(self, *error: object) -> None:
        del self._builders[self._number]


def _workloads(inherited: _Inherited, workloads: list[str]) -> list[WorkloadSummary]:
    return [inherited.builder.write_workload(workload) for workload in workloads]


def _general_files(inherited: _Inherited, paths: list[str]) -> tuple[dict[str, str], int]:
    files = inherited.builder.write_general(paths)
    return files.digests, files.written
