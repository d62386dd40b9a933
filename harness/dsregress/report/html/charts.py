"""Charts of the site's pages, drawn when the site is built: they show without scripts.

The stylesheet sets their style, so that light, dark and print have their own colors. A chart says nothing that the table
next to it does not.
"""

from __future__ import annotations

import functools
import itertools
import math

from markupsafe import Markup

from dsregress.report import svg
from dsregress.wording.quantities import quantity

#: Of the lines, in their order; the legend (in ``parts.html``) has the same.
STYLES = svg.CLASSES[:4]

_WIDTH, _HEIGHT = 760, 240
_LETTER = 7  #: width of a label's letter, in pixels
_MOST_DOTS, _MOST_LABELS = 40, 12

Points = tuple[float | None, ...]


@functools.lru_cache(maxsize=2048)
def line_chart(
    title: str, labels: tuple[str, ...], series: tuple[Points, ...], unit: str, marks: tuple[int, ...] = ()
) -> Markup:
    """Return a chart with one line over ``labels`` for each of at most four series. ``marks`` are the indices before which
    something changed.

    The chart is empty if nothing was measured. A missing value leaves a gap. A screen reader reads ``title``.
    """
    known = [value for values in series for value in values if value is not None and math.isfinite(value)]
    if not known:
        return Markup()
    ticks = y_ticks(min(0.0, *known), max(0.0, *known), unit)
    area, axes = _axes(labels, ticks, unit)
    parts = [axes]
    if marks:
        places = (area.across(mark / len(labels)) for mark in marks)
        parts.append(svg.path([[(x, area.bottom), (x, area.top)] for x in places], "mark"))
    for values, style in zip(series, itertools.cycle(STYLES), strict=False):
        points = [
            (area.across((at + 0.5) / len(labels)), area.up((value - ticks[0]) / (ticks[-1] - ticks[0])))
            if value is not None and math.isfinite(value)
            else None
            for at, value in enumerate(values)
        ]
        runs = [[p for p in run if p] for measured, run in itertools.groupby(points, bool) if measured]
        if not runs:
            continue
        parts.append(svg.path(runs, f"line {style}"))
        if len(labels) <= _MOST_DOTS:
            parts.append(svg.path([[point] for run in runs for point in run], f"dots {style}"))
    return Markup(svg.picture(_WIDTH, _HEIGHT, parts, svg.Caption(title=title), kind="chart", styled=False))


@functools.lru_cache(maxsize=2048)
def _axes(labels: tuple[str, ...], ticks: tuple[float, ...], unit: str) -> tuple[svg.PlotArea, str]:
    """Return the area for the lines, and the grid with its labels, which many charts share."""
    words = [_label(tick, unit) for tick in ticks]
    area = svg.PlotArea(left=15 + _LETTER * max(map(len, words)), top=15, right=_WIDTH - 15, bottom=_HEIGHT - 33)
    stride = math.ceil(len(labels) / max(2, min(_MOST_LABELS, 110 // max(map(len, labels)))))
    shown = [((at + 0.5) / len(labels), labels[at]) for at in range(0, len(labels), stride)]
    span = ticks[-1] - ticks[0]
    rows = area.rows(((tick - ticks[0]) / span, label) for tick, label in zip(ticks, words, strict=True))
    return area, "".join((*rows, *area.columns(share for share, _ in shown), *area.below(shown)))


def y_ticks(low: float, high: float, unit: str) -> tuple[float, ...]:
    """Return three to seven values from ``low`` or below to ``high`` or above, round in the unit's own base."""
    resolved = 16 * math.ulp(max(abs(low), abs(high)))  # below it, neighboring ticks would be the same double
    span = max((high - low) or 1.0, resolved)
    base = {"bytes": 1024.0, "operations": 1000.0}.get(unit)
    scale = base ** math.floor(math.log(span, base)) if base and span >= 1 else 1.0
    steps = (digit * 10.0**power * scale for power in range(-12, 18) for digit in (1, 2, 2.5, 5))
    step = next(step for step in steps if span <= 5 * step)
    first, last = math.floor(low / step), math.ceil(high / step)
    return tuple(number * step for number in range(first, max(last, first + 1) + 1))


def _label(value: float, unit: str) -> str:
    return f"{value:g}" if unit == "ratio" else quantity(value, unit).removesuffix(f" {unit}")
