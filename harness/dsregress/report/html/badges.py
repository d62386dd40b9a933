"""Badges, one for each scenario and stack: a picture, and JSON for shields.io's endpoint badge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from dsregress.advice.soundness import Soundness
from dsregress.compare.metrics import BY_NAME
from dsregress.model import Finding, split_workload
from dsregress.report import urls
from dsregress.report.context import ReportContext
from dsregress.report.html.page import Page
from dsregress.report.known_problems import KnownProblems
from dsregress.report.plain_text import plain
from dsregress.report.rows import is_worse
from dsregress.wording.quantities import plural

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
    stack: str
    label: str
    message: str
    colour: str  #: a name that shields.io knows


def standings(context: ReportContext) -> Iterator[Standing]:
    """Yield the standing of every stack on every scenario that it was measured on. A release has against it what an advisory
    knows as a fault, what is worse and no advisory knows, and a card that it no longer fits."""
    known = KnownProblems(context)
    sound = Soundness(context.comparison, context.rooms, lambda found: is_worse(found) and known.speaks_against(found))
    measured: dict[tuple[str, str], list[str]] = {}
    for workload in context.comparison.cells.workloads:
        for stack in context.comparison.cells.stacks_of(workload):
            measured.setdefault((split_workload(workload).scenario, stack), []).append(workload)
    for (scenario, stack), workloads in measured.items():
        words = {word for w in workloads for found in sound.findings(stack, w) for word in _reasons(found, known)}
        words |= {"memory" for workload in workloads if not sound.has_room(stack, workload)}
        count, ok = len(workloads), sum(sound.is_sound(stack, workload) for workload in workloads)
        if words:
            colour = "yellow" if words == {"time"} else "red"
            message = f"worse: {', '.join(sorted(words))}"
        elif not ok:
            colour, message = "lightgrey", "not measured"
        elif ok < count:
            colour, message = "lightgrey", f"ok on {ok} of {plural(count, 'workload')}"
        else:
            colour, message = "brightgreen", f"ok on {plural(count, 'workload')}"
        label = f"{plain(scenario)} on {plain(context.name_of(stack))}"
        yield Standing(scenario=scenario, stack=stack, label=label, message=message, colour=colour)


def _reasons(found: Finding, known: KnownProblems) -> tuple[str, ...]:
    return tuple(one.id for one in known.of_finding(found)) or (BY_NAME[found.metric].fails or "worse",)


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
    return urls.badge(standing.scenario, standing.stack)
