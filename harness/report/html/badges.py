"""One badge for each scenario and pin: a picture, and JSON for shields.io's endpoint badge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from harness.compare import Comparison
from harness.compare.comparison import EVERYTHING
from harness.compare.metrics import BY_NAME
from harness.report import urls
from harness.report.html.page import Page
from harness.report.plain import plain
from harness.report.rows import is_worse
from harness.wording.quantities import plural

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
    """How a stack stands on all measured workloads of one scenario."""

    scenario: str
    stack: str
    label: str
    message: str
    colour: str  #: a name that shields.io knows


def standings(comparison: Comparison) -> Iterator[Standing]:
    """Of every scenario and stack that were measured together."""
    worse: dict[tuple[str, str], set[str]] = {}
    for group in comparison.groups:
        found = group.headline
        if is_worse(found):
            word = BY_NAME[found.metric].fails or "worse"
            worse.setdefault((found.scenario, found.stack), set()).add(word)
    measured: dict[tuple[str, str], int] = {}
    for workload in comparison.cells.workloads:
        scenario = workload.split("/", 1)[0]
        for stack in comparison.cells.stacks_of(workload):
            measured[scenario, stack] = measured.get((scenario, stack), 0) + 1
    unjudged: dict[tuple[str, str], int] = {}
    for left_out in comparison.not_compared:
        if left_out.what == EVERYTHING:
            key = (left_out.workload.split("/", 1)[0], left_out.stack)
            unjudged[key] = unjudged.get(key, 0) + 1
    for (scenario, stack), count in measured.items():
        words = worse.get((scenario, stack), set())
        name = plain(comparison.names[stack])
        label = f"{plain(scenario)} on {name}"
        if words:
            colour = "yellow" if words == {"time"} else "red"
            message = f"worse: {', '.join(sorted(words))}"
        elif (without := unjudged.get((scenario, stack), 0)) >= count:
            colour, message = "lightgrey", "not measured"
        elif without:
            colour, message = "lightgrey", f"ok on {count - without} of {plural(count, 'workload')}"
        else:
            colour, message = "brightgreen", f"ok on {plural(count, 'workload')}"
        yield Standing(scenario=scenario, stack=stack, label=label, message=message, colour=colour)


def endpoint(standing: Standing) -> bytes:
    """As https://shields.io/badges/endpoint-badge reads it."""
    content = {"schemaVersion": 1, "label": standing.label, "message": standing.message, "color": standing.colour}
    return msgspec.json.encode(content) + b"\n"


def picture(standing: Standing) -> BadgePicture:
    """As wide as its text, at 6.6 pixels a letter."""
    return BadgePicture(
        title=f"{standing.label}: {standing.message}",
        label=standing.label,
        message=standing.message,
        fill=_COLOURS[standing.colour],
        left=round(len(standing.label) * 6.6 + 12),
        right=round(len(standing.message) * 6.6 + 12),
    )


def path(standing: Standing) -> str:
    """Of its files, without their endings."""
    return urls.badge(standing.scenario, standing.stack)
