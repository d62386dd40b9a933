"""What every page knows."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.compare import Comparison
from harness.model import Stack
from harness.report.html import urls
from harness.report.view import Entry, View
from harness.wording.names import varied_axes, version

#: kind -> sign, word: told by both, and by a colour.
KINDS = {
    "wrong": ("✕", "wrong"),
    "failed": ("✕", "failed"),
    "regression": ("▲", "worse"),
    "changed": ("≠", "changed"),
    "improvement": ("▼", "better"),
    "ok": ("✓", "ok"),
    "baseline": ("◆", "baseline"),
    "silent": ("?", "no verdict"),
    "none": ("·", "not run"),
}


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


class Linked(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the report, and its page."""

    entry: Entry
    page: str

    @classmethod
    def of(cls, entry: Entry) -> Linked:
        found = entry.groups[0].headline
        identity = [found.kind, found.metric, found.phase, found.scenario, found.variant, found.device]
        if found.kind == "failed":
            identity = [found.kind, found.stack, found.message]
        elif found.kind == "changed":
            identity = [found.kind, found.message]
        return cls(entry=entry, page=urls.finding_page("-".join(identity)))

    def line(self) -> dict[str, Any]:
        """As a line of a list of findings."""
        row = self.entry.row
        found = self.entry.groups[0].headline
        return {
            "page": self.page,
            "kind": found.kind,
            "stack": row.stack,
            "workload": row.workload,
            "message": row.message,
            "device": found.device,
            "relevant": found.relevant,
        }
