"""The answer to ``fit`` as a curve: the peak of each release and variant over the ranks, or over the swept parameter, with
the memory that each card has for tensors."""

from __future__ import annotations

from dsregress.advice.card_fit import FitAnswer, FitLine
from dsregress.report import svg
from dsregress.wording.names import stack_names
from dsregress.wording.quantities import plural

_WIDTH, _HEIGHT = 860, 420
_AREA = svg.PlotArea(left=70, top=40, right=530, bottom=370)
_GIB = 1 << 30


def as_svg(answer: FitAnswer) -> str:
    """Return one picture. It shows the first card's peaks, which differ from other cards' only if an allocator is modelled
    on each. If there are more curves than styles, styles repeat."""
    card = answer.question.cards[0].name
    lines = [line for line in answer.lines if line.card == card and line.peak_bytes is not None]
    along = sorted({_at(line) for line in lines})
    limits = sorted({(line.available_bytes, line.card) for line in answer.lines})
    top = max([line.peak_bytes or 0 for line in lines] + [limit for limit, _ in limits], default=1) * 1.08

    def across(value: int) -> float:
        """Return a value's position, from 0 to 1. Steps between values are equal, because most are doublings."""
        return along.index(value) / max(1, len(along) - 1)

    def place(line: FitLine) -> svg.Point:
        return _AREA.across(across(_at(line))), _AREA.up((line.peak_bytes or 0) / top)

    title = f"{answer.question.scenario}: peak per GPU"
    axis = answer.question.sweep.parameter if answer.question.sweep else "ranks"
    parts = [
        svg.svg_text(_AREA.left, 24, title),
        *_AREA.rows((quarter / 4, f"{top * quarter / 4 / _GIB:,.0f} GiB") for quarter in range(5)),
        *_AREA.below((across(value), f"{value:,}") for value in along),
        svg.svg_text(_AREA.across(0.5), _AREA.bottom + 38, axis, anchor="middle"),
    ]
    for limit, name in limits:
        y = _AREA.up(limit / top)
        parts.append(svg.svg_line((_AREA.left, y), (_AREA.right, y), "mark"))
        parts.append(svg.svg_text(_AREA.right + 8, y + 4, f"{name}: {limit / _GIB:,.2f} GiB for tensors"))
    for number, (name, members) in enumerate(_curves(answer, lines).items()):
        style = svg.CLASSES[number % len(svg.CLASSES)]
        points = [place(line) for line in sorted(members, key=_at)]
        parts.append(svg.polyline(points, f"line {style}"))
        parts.append(svg.path([[point] for point in points], f"dots {style}"))
        parts.append(svg.svg_key(_AREA.right + 8, _AREA.bottom + 4 - 16 * number, style, name))
    return svg.picture(_WIDTH, _HEIGHT, parts, svg.Caption(title=title)) + "\n"


def _curves(answer: FitAnswer, lines: list[FitLine]) -> dict[str, list[FitLine]]:
    """Return the lines of each curve, by its name: the release, and what else differs."""
    names = stack_names(answer.stacks)
    curves: dict[str, list[FitLine]] = {}
    for line in lines:
        parts = [names[line.stack]]
        parts += [line.variant] if answer.question.others else []
        parts += [plural(line.ranks, "rank")] if answer.question.sweep else []
        curves.setdefault(", ".join(parts), []).append(line)
    return curves


def _at(line: FitLine) -> int:
    return line.ranks if line.value is None else line.value
