"""Charts as SVG, drawn when the site is built: they show without scripts, and take their colours from the page's style.

leather (agate's chart library) draws all but the lines. Every colour is a variable of ``static/style.css``, so that
light, dark and print have their own; every line has its own dashes too. A chart says nothing that the table beside it
does not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from xml.etree import ElementTree

import leather
from leather import theme
from leather.scales.base import Scale
from leather.shapes import Line
from markupsafe import Markup, escape

from harness.wording.quantities import quantity

theme.background_color = "none"
theme.margin = 0.02
theme.tick_font_char_width = 7
theme.tick_font_size = 12
theme.tick_font_family = "inherit"

#: Of the lines, in their order; the legend (in ``parts.html``) has the same.
STYLES = ("s1", "s2", "s3", "s4")
_DASHES = ("none", "8 4", "2 4", "10 4 2 4")
_WIDTH, _HEIGHT = 760, 240
_MOST_DOTS, _MOST_LABELS = 40, 12

Points = tuple[float | None, ...]


class _Scale(Scale):  # type: ignore[misc]  # leather has no types
    """A linear scale whose ticks are given, and which projects to tenths of a pixel."""

    def __init__(self, low: float, high: float) -> None:
        self._low, self._span = low, (high - low) or 1.0

    def contains(self, value: float) -> bool:
        return True

    def project(self, value: float, start: float, end: float) -> float:
        return round(start + (end - start) * (value - self._low) / self._span, 1)

    def ticks(self) -> list[float]:
        return []


class _Room(Line):  # type: ignore[misc]
    """Room for lines, and how large it is."""

    width = height = 0.0

    def to_svg(self, width: float, height: float, *_: Any) -> Any:
        self.width, self.height = width, height
        return ElementTree.Element("g", {"class": "series lines"})


class _Frame(NamedTuple):
    """A chart without its lines, which many charts share."""

    before: str  #: as SVG, up to the place of the lines
    after: str
    across: Callable[[float], float]  #: where a label's place, and
    up: Callable[[float], float]  #: a value are in the picture


@functools.lru_cache(maxsize=2048)
def line_chart(
    title: str, labels: tuple[str, ...], series: tuple[Points, ...], unit: str, marks: tuple[int, ...] = ()
) -> Markup:
    """One line over ``labels`` for each of at most four series; ``marks`` are places before which something changed.

    Empty where nothing was measured. A missing value leaves a gap. ``title`` is what a screen reader says.
    """
    known = [value for values in series for value in values if value is not None and math.isfinite(value)]
    if not known:
        return Markup()
    ticks = y_ticks(min(0.0, *known), max(0.0, *known), unit)
    frame = _frame(labels, ticks, unit)
    lines = []
    if marks:
        upright = [(mark - 0.5, y) for mark in marks for y in (ticks[0], ticks[-1], None)]
        lines.append(_line(frame, upright, "mark", 1.5, "4 3"))
    for values, style, dashes in zip(series, STYLES, _DASHES, strict=False):
        points = [
            (at, value if value is not None and math.isfinite(value) else None) for at, value in enumerate(values)
        ]
        present = [point for point in points if point[1] is not None]
        if not present:
            continue
        lines.append(_line(frame, points, style, 2.5, dashes))
        if len(labels) <= _MOST_DOTS:
            lines.append(
                _line(frame, [spot for at, y in present for spot in ((at, y), (at, y), (at, None))], style, 8, "none")
            )
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}" class="chart"'
    return Markup(f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{frame.before}{"".join(lines)}{frame.after}')


@functools.lru_cache(maxsize=2048)
def _frame(labels: tuple[str, ...], ticks: tuple[float, ...], unit: str) -> _Frame:
    """Axes and grid, drawn by leather. ElementTree, which leather uses, has escaped the labels."""
    x_scale, y_scale = _Scale(-0.5, max(len(labels) - 0.5, 0.5)), _Scale(ticks[0], ticks[-1])
    chart = leather.Chart()
    chart.set_x_scale(x_scale)
    chart.set_y_scale(y_scale)
    stride = math.ceil(len(labels) / max(2, min(_MOST_LABELS, 110 // max(map(len, labels)))))
    chart.add_x_axis(list(range(0, len(labels), stride)), lambda at, *_: labels[int(at)])
    chart.add_y_axis(list(ticks), lambda value, *_: _label(value, unit))
    room = _Room()
    chart.add_series(leather.Series([(0, 0)]), room)
    svg = chart.to_svg(width=_WIDTH, height=_HEIGHT)
    before, after = svg[svg.index(">", svg.index("<svg")) + 1 :].split('<g class="series lines" />')
    return _Frame(
        before,
        after,
        functools.partial(x_scale.project, start=0, end=room.width),
        functools.partial(y_scale.project, start=room.height, end=0),
    )


def _line(frame: _Frame, points: Sequence[tuple[float, float | None]], style: str, width: float, dashes: str) -> str:
    """One path, whatever its gaps: a site has thousands of them."""
    drawn, pen = [], "M"
    for x, y in points:
        if y is None:
            pen = "M"
            continue
        drawn.append(f"{pen} {frame.across(x)} {frame.up(y)}")
        pen = "L"
    dash = "" if dashes == "none" else f' stroke-dasharray="{dashes}"'
    pen_is = f'stroke="var(--{style})" fill="none" stroke-width="{width}"{dash}'
    return f'<g class="series lines"><path {pen_is} d="{" ".join(drawn)}" /></g>'


def y_ticks(low: float, high: float, unit: str) -> tuple[float, ...]:
    """Three to seven round values from ``low`` or below to ``high`` or above: round in the unit's own base."""
    resolved = 16 * math.ulp(max(abs(low), abs(high)))  # below it, neighbouring ticks would be the same double
    span = max((high - low) or 1.0, resolved)
    base = {"bytes": 1024.0, "operations": 1000.0}.get(unit)
    scale = base ** math.floor(math.log(span, base)) if base and span >= 1 else 1.0
    steps = (digit * 10.0**power * scale for power in range(-12, 18) for digit in (1, 2, 2.5, 5))
    step = next(step for step in steps if span <= 5 * step)
    first, last = math.floor(low / step), math.ceil(high / step)
    return tuple(number * step for number in range(first, max(last, first + 1) + 1))


def _label(value: float, unit: str) -> str:
    return f"{value:g}" if unit == "ratio" else quantity(value, unit).removesuffix(f" {unit}")
