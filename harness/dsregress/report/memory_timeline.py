"""Live device bytes through a training step, as SVG: one stack, or several laid over one another.

The phases are next to each other, all of the same width, so that the same phase of two stacks is at the same place. The
title and the description say in words what the lines show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dsregress.probe.border.wire import Stretch
from dsregress.report import svg
from dsregress.wording.quantities import short_quantity

_WIDTH, _HEIGHT = 760, 300
_AREA = svg.PlotArea(left=78, top=34, right=744, bottom=254)

#: More lines than this cannot be distinguished.
MOST_LINES = 4


def as_svg(
    timelines: Mapping[str, Sequence[Stretch]], workload: str, *, identity: str = "timeline", styled: bool = True
) -> str:
    """Return a picture with one line for each named timeline. ``identity`` and ``styled``: see
    `dsregress.report.svg.picture`.

    Raise ValueError if there are no timelines or more than `MOST_LINES`.
    """
    lines = {name: list(stretches) for name, stretches in timelines.items() if stretches}
    if not 0 < len(lines) <= MOST_LINES:
        raise ValueError(f"{len(lines)} timelines cannot be drawn: one to {MOST_LINES} can")
    phases = [stretch.phase for stretch in max(lines.values(), key=len)]
    top = max(nbytes for stretches in lines.values() for stretch in stretches for _, nbytes in stretch.points) or 1

    def place(phase: int, thousandth: int, nbytes: int) -> svg.Point:
        return _AREA.across((phase + thousandth / 1000) / len(phases)), _AREA.up(nbytes / top)

    quarters = [(quarter / 4, short_quantity(top * quarter // 4, "bytes")) for quarter in range(5)]
    middles = [((at + 0.5) / len(phases), phase) for at, phase in enumerate(phases)]
    parts = [
        *_AREA.rows(quarters),
        *_AREA.columns(at / len(phases) for at in range(len(phases))),
        *_AREA.below(middles),
    ]
    for at, ((name, stretches), style) in enumerate(zip(lines.items(), svg.CLASSES, strict=False)):
        points = [place(phase, *point) for phase, stretch in enumerate(stretches) for point in stretch.points]
        parts += [svg.polyline(points, f"line {style}"), svg.svg_key(_AREA.across(at / MOST_LINES), 20, style, name)]
    note = "each phase as wide as the others; within one, by allocations and frees"
    parts.append(svg.svg_text(_AREA.left, _HEIGHT - 10, note))
    title = f"Live device memory through one step of {workload}"
    drawn = svg.picture(
        _WIDTH,
        _HEIGHT,
        parts,
        svg.Caption(title=title, description=_described(lines), identity=identity),
        kind="timeline",
        styled=styled,
    )
    return f"{drawn}\n"


def _described(lines: Mapping[str, Sequence[Stretch]]) -> str:
    sentences = []
    for name, stretches in lines.items():
        phases = [
            f"{stretch.phase} peaks at {short_quantity(max(nbytes for _, nbytes in stretch.points), 'bytes')} and ends at "
            f"{short_quantity(stretch.points[-1][1], 'bytes')}"
            for stretch in stretches
        ]
        sentences.append(f"{name}: {', '.join(phases)}.")
    return " ".join(sentences)
