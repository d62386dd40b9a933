"""From a comparison to a folder of pages. What did not change since the last build is not drawn or written again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import msgspec

from harness.compare import Comparison, Group, StepTime, Thresholds
from harness.errors import ResultsError
from harness.report import urls
from harness.report.comparison import json
from harness.report.html import overview
from harness.report.html.explain import Explained, nothing_explained
from harness.report.html.facts import Change, Facts, Spot, WorkloadSummary, facts, spot
from harness.report.html.finding import finding_context
from harness.report.html.frame import Frame
from harness.report.html.pages import Pages
from harness.report.html.workload import trend_context, workload_context
from harness.report.rows import Row, all_rows, section_of
from harness.report.view import view

#: Work of some families of workloads (or pages) at a time, on as many processors as there are (see `harness.store.bulk`).
Spread = Callable[[Callable[[list[str]], bytes], Iterable[Sequence[str]]], Iterable[msgspec.Raw]]


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """What a build did."""

    pages: int  #: files of the site
    written: int  #: of them, in this build
    removed: int  #: pages of an earlier build that nothing leads to any more


def one_after_another(work: Callable[[list[str]], bytes], families: Iterable[Sequence[str]]) -> Iterator[msgspec.Raw]:
    """The simplest `Spread`."""
    for family in families:
        yield msgspec.Raw(work(list(family)))


def build(
    comparison: Comparison,
    folder: Path,
    thresholds: Thresholds,
    *,
    exit_code: int,
    spread: Spread = one_after_another,
    explained: Explained = nothing_explained,
) -> Built:
    """Write the site into ``folder``. Files there that are no pages of ours stay. Raises ResultsError.

    ``explained`` finds who holds the memory of a result, where somebody has asked.
    """
    global _builder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _builder = _Builder(comparison, folder, thresholds, explained)
        try:
            return _builder.run(exit_code, spread)
        finally:
            _builder = None
    except OSError as error:
        raise ResultsError(
            f"cannot be written: {error.strerror}",
            where=str(error.filename or folder),
            hint="give --html another place",
        ) from error


#: Up to this many cells, the site has the JSON report (2 kB each) beside its pages.
_MOST_IN_JSON = 5_000

#: Inherited by the processes that `Spread` forks: a comparison is too large to be sent to them.
_builder: _Builder | None = None


def _work(workloads: list[str]) -> bytes:
    assert _builder is not None
    return msgspec.msgpack.encode([_builder.workload(workload) for workload in workloads])


def _draw(paths: list[str]) -> bytes:
    assert _builder is not None
    pages = _builder.draw(paths)
    return msgspec.msgpack.encode((pages.digests, pages.written))


def _write_stack(pages: Pages, path: str, stack: str, done: Sequence[WorkloadSummary]) -> None:
    pages.file(path, overview.stack_data(stack, done))


class _Builder:
    """One build."""

    def __init__(self, comparison: Comparison, folder: Path, thresholds: Thresholds, explained: Explained) -> None:
        self.comparison = comparison
        self.explained = explained
        self.thresholds = thresholds
        self.seen = view(comparison)
        self.frame = Frame.of(comparison, self.seen)
        self.pages = Pages(folder, self.frame)
        self.general: dict[str, Callable[[Pages], None]] = {}
        self.rows = all_rows(comparison)
        self.by_workload: dict[str, list[Row]] = defaultdict(list)
        self.owned: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows:
            for workload in dict.fromkeys(group.headline.workload for group in row.groups):
                self.by_workload[workload].append(row)
            self.owned[row.headline.workload].append(row)
        self.by_cell: dict[tuple[str, str], list[Group]] = defaultdict(list)
        for group in comparison.groups:
            self.by_cell[group.headline.stack, group.headline.workload].append(group)
        self.times: dict[str, dict[str, StepTime]] = defaultdict(dict)
        for time in comparison.step_times:
            self.times[time.workload][time.stack] = time
        self.unjudged = {(one.stack, one.workload) for one in comparison.not_compared if one.what == "everything"}

    def run(self, exit_code: int, spread: Spread) -> Built:
        order = self._order()
        parts = spread(_work, [[workload] for workload in order])
        done = [one for part in parts for one in msgspec.msgpack.decode(part, type=list[WorkloadSummary])]
        for one in done:
            self.pages.note(one.pages, one.written)
        self.general = dict(self._general(done))
        for part in spread(_draw, [[path] for path in self.general]):
            self.pages.note(*msgspec.msgpack.decode(part, type=tuple[dict[str, str], int]))
        if len(self.comparison.cells) <= _MOST_IN_JSON:
            self.pages.file("report.json", json.chunks(self.comparison, exit_code))
        self.pages.static()
        return Built(pages=len(self.pages.digests), removed=self.pages.finish(), written=self.pages.written)

    def _general(self, done: Sequence[WorkloadSummary]) -> Iterator[tuple[str, Callable[[Pages], None]]]:
        """Every file that is about all workloads, with what makes it."""
        for path, template, context in overview.contexts(self.comparison, self.frame, self.seen, self.rows, done):
            yield path, partial(Pages.page, path=path, template=template, context=context)
        for stack in self.comparison.stacks:
            path = urls.stack_data(stack.id)
            yield path, partial(_write_stack, path=path, stack=stack.id, done=done)
        for path, badge_text, badge_svg in overview.badges(self.comparison, self.frame):
            yield f"{path}.json", partial(Pages.file, path=f"{path}.json", content=badge_text)
            yield f"{path}.svg", partial(Pages.page, path=f"{path}.svg", template="badge.svg", context=badge_svg)

    def draw(self, paths: Sequence[str]) -> Pages:
        """Some of those files."""
        pages = self.pages.apart()
        for path in paths:
            self.general[path](pages)
        return pages

    def workload(self, workload: str) -> WorkloadSummary:
        """Every page that is about one workload alone."""
        pages = self.pages.apart()
        times = self.times.get(workload, {})
        ratios = {stack: time.ratio for stack, time in times.items()}
        if ratios:
            ratios[self.comparison.baseline] = 1.0
        seen = facts(self.comparison, workload, self.thresholds, ratios)
        spots = self._spots(workload)
        rows = self.by_workload.get(workload, [])
        context = workload_context(self.comparison, seen, spots, rows, times)
        pages.page(urls.workload_page(workload), "workload.html", context)
        pages.page(urls.trend_page(workload), "trend.html", trend_context(self.comparison, seen))
        for row in self.owned.get(workload, []):
            context = finding_context(self.comparison, row, seen, rows, times, self.explained)
            pages.page(urls.finding_page(row.headline), "finding.html", context)
        return WorkloadSummary(
            workload=workload,
            spots=spots,
            changes=_telling(seen),
            figures=seen.figures,
            pages=pages.digests,
            written=pages.written,
        )

    def _spots(self, workload: str) -> dict[str, Spot]:
        cells = self.comparison.cells.of_workload(workload)
        found = {}
        for stack, cell in cells.items():
            groups = self.by_cell.get((stack, workload), [])
            has_page = bool(groups) and section_of(groups[0].headline) != ""
            found[stack] = spot(
                cell,
                groups,
                urls.finding_page(groups[0].headline) if has_page else urls.workload_page(workload),
                baseline=stack == self.comparison.baseline,
                judged=(stack, workload) not in self.unjudged,
            )
        return found

    def _order(self) -> list[str]:
        """Workloads with findings first, the worst first."""
        telling = dict.fromkeys(group.headline.workload for group in self.comparison.groups if group.headline.relevant)
        return [*telling, *(workload for workload in self.comparison.cells.workloads if workload not in telling)]


#: Changes of one workload that travel to the pages about all workloads: the largest.
_MOST_CHANGES = 40


def _telling(seen: Facts) -> tuple[Change, ...]:
    return tuple(sorted(seen.changes, key=lambda change: -change.size)[:_MOST_CHANGES])
