"""Pictures as SVG: one style, and the few elements that all pictures consist of.

An element has a class and no color. On a page of the site, the stylesheet sets its style (``static/style.css`` has
`RULES`); a picture in a file of its own contains the rules, in colors that follow the reader's light or dark scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

import msgspec


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The look of a line."""

    light: str  #: its color on light ground
    dark: str  #: and on dark ground
    dashes: str = ""  #: for readers who do not see colors


#: The lines in their order.
_LINES = msgspec.toml.decode(
    Path(__file__).with_name("svg_lines.toml").read_bytes(), type=dict[str, tuple[_Line, ...]]
)["line"]

MOST_LINES = len(_LINES)

RULES = (
    ".picture text { fill: var(--soft); font-size: 12px; }",
    ".picture .grid { fill: none; stroke: var(--grid); }",
    ".picture .line { fill: none; stroke-width: 2; stroke-linejoin: round; }",
    ".picture .dots { fill: none; stroke-width: 8; stroke-linecap: round; stroke-dasharray: none; }",
    ".picture .mark { fill: none; stroke: var(--mark); stroke-width: 1.5; stroke-dasharray: 4 3; }",
    *(
        f".s{number} {{ stroke: var(--s{number}); {f'stroke-dasharray: {dashes}; ' if dashes else ''}}}"
        for number, dashes in enumerate((line.dashes for line in _LINES), 1)
    ),
)

#: Names of the lines' classes.
CLASSES = tuple(f"s{number}" for number in range(1, MOST_LINES + 1))


def _colours(ground: str, soft: str, grid: str, mark: str, lines: Iterable[str]) -> str:
    named = "".join(f"--s{number}:{colour};" for number, colour in enumerate(lines, 1))
    return f".picture{{background:{ground};--soft:{soft};--grid:{grid};--mark:{mark};{named}}}"


_STYLE = "".join(
    (
        ".picture{font-family:system-ui,sans-serif}",
        _colours("#fff", "#4a535c", "#e3e6e9", "#a4231a", (line.light for line in _LINES)),
        f"@media (prefers-color-scheme:dark){{"
        f"{_colours('#12161b', '#b3bcc6', '#2b323a', '#ff9a90', (line.dark for line in _LINES))}}}",
        *RULES,
    )
)

Point = tuple[float, float]


class PlotArea(NamedTuple):
    """The rectangle of the lines, in pixels of the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def across(self, share: float) -> float:
        """Return x at a share of the width, 0 to 1."""
        return round(self.left + share * (self.right - self.left), 1)

    def up(self, share: float) -> float:
        """Return y at a share of the height, 0 to 1 from below."""
        return round(self.bottom - share * (self.bottom - self.top), 1)

    def rows(self, labels: Iterable[tuple[float, str]]) -> Iterator[str]:
        """Yield a horizontal line, with its label on the left, at each share of the height."""
        for share, label in labels:
            y = self.up(share)
            yield svg_line((self.left, y), (self.right, y), "grid")
            yield svg_text(self.left - 6, y + 4, label, anchor="end")

    def columns(self, shares: Iterable[float]) -> Iterator[str]:
        """Yield a vertical line at each share of the width."""
        for share in shares:
            x = self.across(share)
            yield svg_line((x, self.top), (x, self.bottom), "grid")

    def below(self, labels: Iterable[tuple[float, str]]) -> Iterator[str]:
        """Yield a label below each share of the width."""
        for share, label in labels:
            yield svg_text(self.across(share), self.bottom + 17, label, anchor="middle")


class Caption(msgspec.Struct, frozen=True, kw_only=True):
    """The texts that a screen reader reads for a picture."""

    title: str
    description: str = ""
    identity: str = ""  #: makes the ids of the texts unique, if several pictures share a page


def picture(
    width: int,
    height: int,
    parts: Iterable[str],
    caption: Caption,
    *,
    kind: str = "",
    styled: bool = True,
) -> str:
    """Return a whole picture. ``kind`` is one more class.

    Unless ``styled``, it has no style of its own: for pages whose stylesheet has the rules, and whose policy forbids
    others.
    """
    classes = f"picture {kind}".rstrip()
    head = f'<svg class="{classes}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
    style = f"<style>{_STYLE}</style>" if styled else ""
    if not caption.description:
        return f"{head}aria-label={quoteattr(caption.title)}>{style}{''.join(parts)}</svg>"
    identity, title, description = caption.identity, caption.title, caption.description
    return (
        f'{head}aria-labelledby="{identity}-title {identity}-desc"><title id="{identity}-title">{escape(title)}</title>'
        f'<desc id="{identity}-desc">{escape(description)}</desc>{style}{"".join(parts)}</svg>'
    )


def svg_text(x: float, y: float, words: str, *, anchor: str = "") -> str:
    """Return an element with text, of which ``anchor`` is at x: ``middle``, ``end``, or by default the start."""
    at = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:g}" y="{y:g}"{at}>{escape(words)}</text>'


def svg_line(start: Point, end: Point, style: str) -> str:
    """Return a straight line. ``style`` names its classes."""
    return f'<line class="{style}" x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}"/>'


def polyline(points: Iterable[Point], style: str) -> str:
    """Return a line through all points. ``style`` names its classes."""
    return f'<polyline class="{style}" points="{" ".join(f"{x:g},{y:g}" for x, y in points)}"/>'


def path(lines: Iterable[Sequence[Point]], style: str) -> str:
    """Return several lines as one element; a line of one point is a dot."""
    drawn = []
    for points in lines:
        first, *rest = [f"{x:g} {y:g}" for x, y in points]
        drawn.append(f"M{first} L{' L'.join(rest or [first])}")
    return f'<path class="{style}" d="{" ".join(drawn)}"/>'


def svg_key(x: float, y: float, style: str, words: str) -> str:
    """Return a legend's entry: a short piece of the line, and its name."""
    return svg_line((x, y - 4), (x + 22, y - 4), f"line {style}") + svg_text(x + 28, y, words)
