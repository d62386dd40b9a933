"""The page of each release, and the trend over all of them: what changed from one release to the next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import ClassVar

import msgspec

from dsregress.advisories.shipped import read_advisories
from dsregress.compare.metrics import BY_NAME
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.html.page import FindingLine, Page, PageFrame, ReleaseColumn
from dsregress.report.html.workload_facts import ChangePoint, MatrixCell, WorkloadSummary
from dsregress.report.release_verdicts import ReleaseVerdict, ReleaseVerdicts
from dsregress.report.rows import Row
from dsregress.wording.quantities import plural

#: Lines of one list, and of one family of metrics.
_MOST_LINES, _MOST_OF_A_KIND = 100, 15

#: Lines of the trend over all releases.
_MOST_CHANGES = 200

#: The families of metrics whose changes a release's page lists, in this order.
_FAMILIES = ("memory", "step time", "host work", "compute", "communication")


class ChangeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A change of one metric on one workload, from one release to the next."""

    workload: str
    page: str  #: of the metric over the releases
    series: str
    text: str
    stack: str  #: the first release after the change
    release: str  #: the page of that release


class FamilyChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The largest changes of one family of metrics."""

    family: str
    lines: tuple[ChangeLine, ...]
    more: int


class ReleaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """The standing of a release on one workload."""

    workload: str
    page: str
    cell: MatrixCell


class ReleasePage(Page, frozen=True, kw_only=True):
    """All about one release."""

    template: ClassVar[str] = "release.html"
    release: ReleaseColumn
    before: ReleaseColumn | None
    after: ReleaseColumn | None
    verdict: str
    kind: str  #: whose sign and color the verdict has
    worse: dict[str, list[str]]  #: an advisory's id and title, or the word by which a run fails -> workloads
    steps: tuple[FamilyChanges, ...]  #: against the release before
    new: tuple[tuple[str, str], ...]  #: message and page of findings that the release before lacks: defaults, numerics
    lines: tuple[FindingLine, ...]
    more: int
    rows: tuple[ReleaseRow, ...]
    workloads: int


class TrendsPage(Page, frozen=True, kw_only=True):
    """The largest changes of all metrics on all workloads."""

    template: ClassVar[str] = "trends.html"
    lines: tuple[ChangeLine, ...]
    more: int
    workloads: tuple[tuple[str, str], ...]  #: name and page


def release_pages(
    context: ReportContext,
    frame: PageFrame,
    rows: Sequence[Row],
    summaries: Sequence[WorkloadSummary],
    verdicts: ReleaseVerdicts,
) -> Iterator[tuple[str, ReleasePage]]:
    """Yield ``(path, page)`` of each release."""
    lines: dict[str, list[FindingLine]] = defaultdict(list)
    messages: dict[str, dict[str, str]] = defaultdict(dict)  # stack -> message -> page, of defaults and numerics
    for row in rows:
        line = FindingLine.of(row)
        for stack in dict.fromkeys(group.headline.stack for group in row.groups):
            lines[stack].append(line)
        for group in row.groups:
            found = group.headline
            if found.kind == "changed" or BY_NAME[found.metric].fails == "numerics":
                messages[found.stack][found.message] = line.page
    changes: dict[str, dict[str, list[ChangePoint]]] = defaultdict(lambda: defaultdict(list))
    for summary in summaries:
        for change in summary.changes:
            changes[change.stack][change.family].append(change)
    for at, release in enumerate(frame.releases):
        before = frame.releases[at - 1] if at else None
        measured = [summary for summary in summaries if release.id in summary.cells]
        own = {one.workload: verdicts.of(release.id, one.workload) for one in measured}
        verdict, kind = _safety(list(own.values()))
        page = ReleasePage(
            title=f"Release {release.name}",
            release=release,
            before=before,
            after=frame.releases[at + 1] if at + 1 < len(frame.releases) else None,
            verdict=verdict,
            kind=kind,
            worse=_workloads_by_reason(own),
            steps=tuple(_family_changes(context, changes[release.id])),
            new=tuple(
                (message, page)
                for message, page in messages[release.id].items()
                if before is None or message not in messages[before.id]
            )[:_MOST_OF_A_KIND],
            lines=tuple(lines[release.id][:_MOST_LINES]),
            more=max(0, len(lines[release.id]) - _MOST_LINES),
            rows=tuple(_row(summary, release) for summary in measured[:_MOST_LINES]),
            workloads=len(measured),
        )
        yield release.page, page


def trends_page(context: ReportContext, summaries: Sequence[WorkloadSummary]) -> TrendsPage:
    """Return the page with the largest changes of all workloads, in version order."""
    changes = sorted((change for summary in summaries for change in summary.changes), key=lambda change: -change.size)
    order = {stack: at for at, stack in enumerate(context.comparison.names)}
    largest = sorted(changes[:_MOST_CHANGES], key=lambda change: (order[change.stack], -change.size))
    return TrendsPage(
        title="Trend",
        lines=tuple(_line(context, change) for change in largest),
        more=max(0, len(changes) - _MOST_CHANGES),
        workloads=tuple((summary.workload, urls.trend_page(summary.workload)) for summary in summaries[:_MOST_CHANGES]),
    )


def _safety(found: Sequence[ReleaseVerdict]) -> tuple[str, str]:
    """Return one sentence, and the kind whose sign and color it has."""
    judged = [one for one in found if one.is_judged or one.against]
    if not judged:
        return "Nothing was measured with it.", "unjudged"
    of = f"of the {plural(len(judged), 'workload')} measured"
    if ruled_out := sum(bool(one.against) for one in judged):
        return f"Not for {ruled_out:,} {of}.", "wrong"
    if to_set := sum(bool(one.conditions) for one in judged):
        return f"Yes, if something is set for {to_set:,} {of}.", "changed"
    if differing := sum(bool(one.differs) for one in judged):
        return f"Yes, and it costs more or differs on {differing:,} {of}.", "changed"
    return f"Nothing is known against it on any {of}.", "ok"


def _workloads_by_reason(verdicts: Mapping[str, ReleaseVerdict]) -> dict[str, list[str]]:
    """Return workloads by what is against a release there, by what is to be set, and by what differs."""
    titles = {one.id: f"{one.id} {one.title}" for one in read_advisories()}
    found: dict[str, list[str]] = defaultdict(list)
    for title, names_of in (
        ("", attrgetter("against")),
        ("to set: ", attrgetter("conditions")),
        ("differs: ", attrgetter("differs")),
    ):
        for workload, verdict in sorted(verdicts.items()):
            for name in names_of(verdict):
                found[f"{title}{titles.get(name, name)}"].append(workload)
    return {reason: workloads[:_MOST_OF_A_KIND] for reason, workloads in found.items()}


def _family_changes(context: ReportContext, changes: Mapping[str, list[ChangePoint]]) -> Iterator[FamilyChanges]:
    for family in _FAMILIES:
        found = sorted(changes.get(family, ()), key=lambda change: -change.size)
        if found:
            lines = tuple(_line(context, change) for change in found[:_MOST_OF_A_KIND])
            yield FamilyChanges(family=family, lines=lines, more=len(found) - len(lines))


def _line(context: ReportContext, change: ChangePoint) -> ChangeLine:
    return ChangeLine(
        workload=change.workload,
        page=urls.trend_page(change.workload),
        series=change.series,
        text=change.text,
        stack=context.name_of(change.stack),
        release=urls.release_page(change.stack),
    )


def _row(summary: WorkloadSummary, release: ReleaseColumn) -> ReleaseRow:
    return ReleaseRow(
        workload=summary.workload, page=urls.workload_page(summary.workload), cell=summary.cells[release.id]
    )
