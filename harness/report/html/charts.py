"""Charts as SVG, drawn when the site is built: they show without scripts, and take their colours from the page's style.

leather (agate's chart library) draws them. Every colour is a variable of ``static/style.css``, so that light, dark and
print have their own; every line has its own dashes too. A chart says nothing that the table beside it does not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import leather
from leather import theme
from leather.scales.base import Scale
from leather.shapes import Line
from markupsafe import Markup, escape

from harness.compare.wording import quantity

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


class _Line(Line):  # type: ignore[misc]
    """Without a legend: the page has one, as text. One path, whatever its gaps: a site has thousands of them."""

    def __init__(self, color: str, width: float, dashes: str | None) -> None:
        super().__init__(color, width, dashes)
        self._color = color

    def legend_to_svg(self, *_: Any) -> list[Any]:
        return []

    def to_svg(self, width: float, height: float, x_scale: Scale, y_scale: Scale, series: Any, palette: Any) -> Any:
        drawn, pen = [], "M"
        across, up = x_scale.project, y_scale.project
        for x, y in zip(series.values(0), series.values(1), strict=True):
            if y is None:
                pen = "M"
                continue
            drawn.append(f"{pen} {across(x, 0, width)} {up(y, height, 0)}")
            pen = "L"
        group = ElementTree.Element("g", {"class": "series lines"})
        path = self._new_path(self._color)
        path.set("d", " ".join(drawn))
        group.append(path)
        return group


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
    chart = leather.Chart()
    chart.set_x_scale(_Scale(-0.5, max(len(labels) - 0.5, 0.5)))
    chart.set_y_scale(_Scale(ticks[0], ticks[-1]))
    stride = math.ceil(len(labels) / max(2, min(_MOST_LABELS, 110 // max(map(len, labels)))))
    chart.add_x_axis(list(range(0, len(labels), stride)), lambda at, *_: labels[int(at)])
    chart.add_y_axis(list(ticks), lambda value, *_: _label(value, unit))
    if marks:
        upright = [(mark - 0.5, y) for mark in marks for y in (ticks[0], ticks[-1], None)]
        _add_line(chart, upright, "mark", 1.5, "4 3")
    for values, style, dashes in zip(series, STYLES, _DASHES, strict=False):
        points = [
            (at, value if value is not None and math.isfinite(value) else None) for at, value in enumerate(values)
        ]
        present = [point for point in points if point[1] is not None]
        if not present:
            continue
        _add_line(chart, points, style, 2.5, dashes)
        if len(labels) <= _MOST_DOTS:
            _add_line(
                chart, [spot for at, value in present for spot in ((at, value), (at, value), (at, None))], style, 8
            )
    return _accessible(chart.to_svg(width=_WIDTH, height=_HEIGHT), title)


def _add_line(
    chart: Any, points: Sequence[tuple[float, float | None]], style: str, width: float, dash: str = ""
) -> None:
    chart.add_series(leather.Series(points), _Line(f"var(--{style})", width, dash or None))


def y_ticks(low: float, high: float, unit: str) -> tuple[float, ...]:
    """Three to seven round values from ``low`` or below to ``high`` or above: round in the unit's own base."""
    span = (high - low) or 1.0
    base = {"bytes": 1024.0, "operations": 1000.0}.get(unit)
    scale = base ** math.floor(math.log(span, base)) if base and span >= 1 else 1.0
    steps = (digit * 10.0**power * scale for power in range(-12, 18) for digit in (1, 2, 2.5, 5))
    step = next(step for step in steps if span <= 5 * step)
    first, last = math.floor(low / step), math.ceil(high / step)
    return tuple(number * step for number in range(first, max(last, first + 1) + 1))


def _label(value: float, unit: str) -> str:
    return f"{value:g}" if unit == "ratio" else quantity(value, unit).removesuffix(f" {unit}")


def _accessible(svg: str, title: str) -> Markup:
    """As part of a page: as wide as there is room, and with a name. ElementTree, which leather uses, has escaped it."""
    body = svg[svg.index("<svg") :]
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}" class="chart"'
    return Markup(f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{body[body.index(">") + 1 :]}')
