"""The answer to ``fit`` as a curve: the peak of each release and variant over the ranks, or over what is swept, with what
each card has for tensors. SVG by hand: axes, lines and words."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from harness.advice.fit import FitAnswer, FitLine
from harness.wording.names import stack_names

_WIDTH, _HEIGHT = 860, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 330, 40, 50
_GIB = 1 << 30
#: Told apart by eyes that see no red or no green (Okabe and Ito, 2008).
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442")


def as_svg(answer: FitAnswer) -> str:
    """One picture. The first card's peaks are drawn: they differ between cards only where an allocator is modelled on
    each."""
    card = answer.question.cards[0].name
    names = stack_names(answer.stacks)
    lines = [line for line in answer.lines if line.card == card and line.peak_bytes is not None]
    curves: dict[str, list[FitLine]] = {}
    for line in lines:
        parts = [names[line.stack]]
        parts += [line.variant] if answer.question.others else []
        parts += [f"{line.ranks:,} ranks"] if answer.question.sweep else []
        curves.setdefault(", ".join(parts), []).append(line)
    along = sorted({_at(line) for line in lines})
    limits = sorted({(line.available_bytes, line.card) for line in answer.lines})
    top = max([line.peak_bytes or 0 for line in lines] + [limit for limit, _ in limits], default=1) * 1.08
    title = f"{answer.question.scenario}: peak per GPU"
    axis = answer.question.sweep.parameter if answer.question.sweep else "ranks"
    body = [
        f'<text x="{_LEFT}" y="24" font-weight="bold">{escape(title)}</text>',
        *_axes(along, top, axis),
        *(part for limit, name in limits for part in _limit(limit, name, top)),
    ]
    for number, (name, members) in enumerate(curves.items()):
        body += _curve(number, name, sorted(members, key=_at), along, top)
    style = 'font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" {style}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *body, "</svg>", ""])


def _at(line: FitLine) -> int:
    return line.ranks if line.value is None else line.value


def _x(value: int, along: Sequence[int]) -> float:
    """Equal steps from each value to the next: they are doublings, mostly."""
    return _LEFT + along.index(value) * (_WIDTH - _LEFT - _RIGHT) / max(1, len(along) - 1)


def _y(size: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - size / top * (_HEIGHT - _TOP - _BOTTOM)


def _axes(along: Sequence[int], top: float, title: str) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [f'<path d="M{_LEFT},{_TOP} V{bottom} H{right}" fill="none" stroke="#444"/>']
    for value in along:
        parts.append(f'<text x="{_x(value, along):.0f}" y="{bottom + 18}" text-anchor="middle">{value:,}</text>')
    parts.append(f'<text x="{(_LEFT + right) / 2:.0f}" y="{bottom + 38}" text-anchor="middle">{escape(title)}</text>')
    for quarter in range(5):
        size = top * quarter / 4
        y = _y(size, top)
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{size / _GIB:,.0f} GiB</text>')
        parts.append(f'<path d="M{_LEFT},{y:.1f} H{right}" stroke="#ddd"/>')
    return parts


def _limit(limit: int, card: str, top: float) -> list[str]:
    y, right = _y(limit, top), _WIDTH - _RIGHT
    words = f"{card}: {limit / _GIB:,.2f} GiB for tensors"
    return [
        f'<path d="M{_LEFT},{y:.1f} H{right}" stroke="#b00" stroke-dasharray="6 4"/>',
        f'<text x="{right + 8}" y="{y + 4:.0f}" fill="#b00">{escape(words)}</text>',
    ]


def _curve(number: int, name: str, members: Sequence[FitLine], along: Sequence[int], top: float) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    points = [(_x(_at(line), along), _y(line.peak_bytes or 0, top)) for line in members]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    label = _HEIGHT - _BOTTOM + 4 - 16 * number
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points),
        f'<text x="{_WIDTH - _RIGHT + 8}" y="{label}" fill="{colour}">{escape(name)}</text>',
    ]
