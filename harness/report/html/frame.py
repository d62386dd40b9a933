"""What every page knows."""

from __future__ import annotations

import msgspec

from harness.compare import Comparison
from harness.model import Stack
from harness.report import urls
from harness.report.rows import Row
from harness.report.view import View
from harness.wording.names import varied_axes, version


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """One stack as a column."""

    id: str
    name: str
    page: str
    baseline: bool
    axes: dict[str, str]  #: of the packages that vary: its version
    versions: dict[str, str]


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on every page, and therefore makes every page anew when it changes."""

    measured: str
    baseline: str
    axes: tuple[str, ...]
    releases: tuple[Release, ...]  #: in version order

    @classmethod
    def of(cls, comparison: Comparison, seen: View) -> Frame:
        axes = varied_axes(comparison.stacks)
        return cls(
            measured=seen.measured,
            baseline=comparison.names.get(comparison.baseline, comparison.baseline),
            axes=axes,
            releases=tuple(_release(comparison, stack, axes) for stack in comparison.stacks),
        )


def _release(comparison: Comparison, stack: Stack, axes: tuple[str, ...]) -> Release:
    return Release(
        id=stack.id,
        name=comparison.names[stack.id],
        page=urls.release_page(stack.id),
        baseline=stack.id == comparison.baseline,
        axes={axis: version(stack, axis) for axis in axes},
        versions={"python": stack.python, **stack.versions},
    )


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
        return cls(
            page=urls.finding_page(row.headline),
            kind=row.kind,
            stack=row.stack,
            workload=row.workload,
            message=row.message,
            device=row.headline.device,
            relevant=row.headline.relevant,
        )
