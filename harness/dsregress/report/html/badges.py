"""Badges, one for each scenario and stack: a picture, and JSON for shields.io's endpoint badge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from dsregress.model import split_workload
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.html.page import Page
from dsregress.report.plain_text import plain
from dsregress.report.release_verdicts import ReleaseVerdict, ReleaseVerdicts
from dsregress.wording.quantities import listing, plural

_MOST_NAMES = 3

_COLOURS = {"red": "#c0362c", "yellow": "#8a6100", "brightgreen": "#1a7f37", "lightgrey": "#6a737d"}


class BadgePicture(Page, frozen=True, kw_only=True):
    """A badge as SVG. Widths are in pixels."""

    template: ClassVar[str] = "badge.svg"
    label: str
    message: str
    fill: str
    left: int
    right: int


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The standing of a stack on all measured workloads of one scenario."""

    scenario: str
    release: str  #: the name of the stack
    label: str
    message: str
    colour: str  #: a name that shields.io knows


def standings(context: ReportContext, verdicts: ReleaseVerdicts) -> Iterator[Standing]:
    """Yield the standing of every stack on every scenario that it was measured on."""
    measured: dict[tuple[str, str], list[ReleaseVerdict]] = {}
    for workload in context.comparison.cells.workloads:
        for stack in context.comparison.cells.stacks_of(workload):
            own = measured.setdefault((split_workload(workload).scenario, stack), [])
            own.append(verdicts.of(stack, workload))
    for (scenario, stack), found in measured.items():
        message, colour = _words(found)
        release = context.name_of(stack)
        label = f"{plain(scenario)} on {plain(release)}"
        yield Standing(scenario=scenario, release=release, label=label, message=message, colour=colour)


def _words(found: Sequence[ReleaseVerdict]) -> tuple[str, str]:
    """Return the message and the color: of what is against a release, else of what is to be set, else of what differs."""
    groups = (
        ("no: ", "red", (one.against for one in found)),
        ("yes, if set: ", "yellow", (one.conditions for one in found)),
        ("yes, differs in: ", "yellow", (one.differs for one in found)),
    )
    for words, colour, each in groups:
        if names := sorted({name for names in each for name in names}):
            return f"{words}{listing(names, _MOST_NAMES)}", colour
    count, judged = len(found), sum(one.is_judged for one in found)
    if judged:
        of = f"{judged} of " if judged < count else ""
        return f"ok on {of}{plural(count, 'workload')}", "lightgrey" if of else "brightgreen"
    return "not measured", "lightgrey"


def endpoint(standing: Standing) -> bytes:
    """Return the JSON that https://shields.io/badges/endpoint-badge reads."""
    content = {"schemaVersion": 1, "label": standing.label, "message": standing.message, "color": standing.colour}
    return msgspec.json.encode(content) + b"\n"


def picture(standing: Standing) -> BadgePicture:
    """Return the picture of a badge, as wide as its text at 6.6 pixels a letter."""
    return BadgePicture(
        title=f"{standing.label}: {standing.message}",
        label=standing.label,
        message=standing.message,
        fill=_COLOURS[standing.colour],
        left=round(len(standing.label) * 6.6 + 12),
        right=round(len(standing.message) * 6.6 + 12),
    )


def path(standing: Standing) -> str:
    """Return the path of a badge's files, without their endings."""
    return urls.badge(standing.scenario, standing.release)
