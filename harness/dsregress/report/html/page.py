"""The data that pages are rendered from: the variables of a template, and the frame that all pages share."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from dsregress.model import Stack
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.first_screen import FirstScreen
from dsregress.report.report_view import View
from dsregress.report.rows import Row
from dsregress.report.tables import Table
from dsregress.wording.names import version_of


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """A page, whose fields are the variables of its template. It is rendered again only if a field, or the frame, has
    changed."""

    template: ClassVar[str]
    title: str


class ReleaseColumn(msgspec.Struct, frozen=True, kw_only=True):
    """One stack of the comparison."""

    id: str
    name: str
    page: str
    baseline: bool
    axes: dict[str, str]  #: package -> its version, of the packages that vary
    versions: dict[str, str]


class PageFrame(msgspec.Struct, frozen=True, kw_only=True):
    """The content that every page shows. If it changes, every page is rendered again."""

    measured: str
    day: str  #: the last one on which a cell was measured, in UTC; empty if none was
    baseline: str
    axes: tuple[str, ...]
    releases: tuple[ReleaseColumn, ...]  #: in version order

    @classmethod
    def of(cls, context: ReportContext, view: View) -> PageFrame:
        """Return the frame of a comparison's pages."""
        return cls(
            measured=view.measured,
            day=context.comparison.measured_days[-1] if context.comparison.measured_days else "",
            baseline=context.baseline,
            axes=context.axes,
            releases=tuple(_column(context, stack) for stack in context.comparison.stacks),
        )


def _column(context: ReportContext, stack: Stack) -> ReleaseColumn:
    return ReleaseColumn(
        id=stack.id,
        name=context.name_of(stack.id),
        page=urls.release_page(stack.id),
        baseline=stack.id == context.comparison.baseline,
        axes={axis: version_of(stack, axis) for axis in context.axes},
        versions={"python": stack.python, **stack.versions},
    )


class Conclusions(msgspec.Struct, frozen=True, kw_only=True):
    """The part of the view that the pages about all workloads use."""

    screen: FirstScreen
    below: str
    not_compared: tuple[str, ...]
    without_verdict: int
    control: tuple[str, ...]
    notes: tuple[str, ...]
    reproduce: str
    compatibility: tuple[Table, ...]
    patterns: tuple[str, ...]

    @classmethod
    def of(cls, view: View) -> Conclusions:
        """Return the view's fields of the same names."""
        return cls(**{name: getattr(view, name) for name in cls.__struct_fields__})


class FindingLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a list of findings."""

    page: str
    kind: str
    stack: str
    workload: str
    message: str
    device: str
    relevant: bool

    @classmethod
    def of(cls, row: Row) -> FindingLine:
        """Return the line of a row, which links to the page of its worst finding."""
        return cls(
            page=urls.finding_page(row.headline),
            kind=row.kind,
            stack=row.stack,
            workload=row.workload,
            message=row.message,
            device=row.headline.device,
            relevant=row.headline.relevant,
        )
