"""Live device bytes through a training step, as SVG: one stack, or several laid over one another.

The phases stand side by side, each as wide as the others', so that the same phase of two stacks lies at the same place
whatever they do in it. Colours follow the reader's light or dark scheme; the title and the description say in words
what the lines show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

from harness.probe.border.wire import Stretch
from harness.wording.quantities import short_quantity

WIDTH, HEIGHT = 760, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 78, 16, 34, 46

_STYLE = (
    ".timeline{font:12px system-ui,sans-serif;color:#24292f}"
    ".timeline text{fill:currentColor}"
    ".timeline .grid{stroke:currentColor;stroke-opacity:.18}"
    ".timeline .line{fill:none;stroke-width:1.8;stroke-linejoin:round}"
    ".timeline .s0{stroke:#0969da}.timeline .s1{stroke:#bc4c00;stroke-dasharray:6 3}"
    ".timeline .s2{stroke:#1a7f37;stroke-dasharray:2 3}.timeline .s3{stroke:#8250df;stroke-dasharray:9 3 2 3}"
    "@media (prefers-color-scheme:dark){.timeline{color:#d0d7de}"
    ".timeline .s0{stroke:#58a6ff}.timeline .s1{stroke:#f0883e}"
    ".timeline .s2{stroke:#56d364}.timeline .s3{stroke:#bc8cff}}"
)

#: More lines than this cannot be told apart.
MOST_LINES = 4


def as_svg(
    timelines: Mapping[str, Sequence[Stretch]], workload: str, *, identity: str = "timeline", styled: bool = True
) -> str:
    """One line for each named timeline. ``identity`` makes ids unique where several pictures share a page.

    Without ``styled`` it has no style of its own: for pages whose stylesheet draws it, and whose policy forbids others.

    Raises ValueError where there are no timelines or more than `MOST_LINES`.
    """
    lines = {name: list(stretches) for name, stretches in timelines.items() if stretches}
    if not 0 < len(lines) <= MOST_LINES:
        raise ValueError(f"{len(lines)} timelines cannot be drawn: one to {MOST_LINES} can")
    longest = max(lines.values(), key=len)
    phases = [stretch.phase for stretch in longest]
    top = max(nbytes for stretches in lines.values() for one in stretches for _, nbytes in one.points) or 1
    wide, high = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def place(stretch: int, thousandth: int, nbytes: int) -> str:
        x = _LEFT + wide * (stretch + thousandth / 1000) / len(phases)
        return f"{x:.1f},{_TOP + high * (1 - nbytes / top):.1f}"

    parts = [
        f'<svg class="timeline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-labelledby="{identity}-title {identity}-desc">',
        f'<title id="{identity}-title">Live device memory through one step of {escape(workload)}</title>',
        f'<desc id="{identity}-desc">{escape(_described(lines))}</desc>',
        *([f"<style>{_STYLE}</style>"] if styled else []),
    ]
    for quarter in range(5):
        y = _TOP + high * (1 - quarter / 4)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>')
        label = escape(short_quantity(top * quarter // 4, "bytes"))
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    for number, phase in enumerate(phases):
        x = _LEFT + wide * number / len(phases)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{HEIGHT - _BOTTOM}"/>')
        middle = x + wide / len(phases) / 2
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT - _BOTTOM + 16}" text-anchor="middle">{escape(phase)}</text>')
    for number, (name, stretches) in enumerate(lines.items()):
        points = " ".join(
            place(at, thousandth, nbytes) for at, one in enumerate(stretches) for thousandth, nbytes in one.points
        )
        parts.append(f'<polyline class="line s{number}" points="{points}"/>')
        x = _LEFT + number * wide / MOST_LINES
        parts.append(f'<line class="line s{number}" x1="{x:.1f}" y1="16" x2="{x + 22:.1f}" y2="16"/>')
        parts.append(f'<text x="{x + 28:.1f}" y="20">{escape(name)}</text>')
    note = "each phase as wide as the others; within one, by allocations and frees"
    parts.append(f'<text x="{_LEFT}" y="{HEIGHT - 10}" class="note" font-size="11">{note}</text>')
    return "".join(parts) + "</svg>\n"


def _described(lines: Mapping[str, Sequence[Stretch]]) -> str:
    sentences = []
    for name, stretches in lines.items():
        phases = [
            f"{one.phase} peaks at {short_quantity(max(nbytes for _, nbytes in one.points), 'bytes')} and ends at "
            f"{short_quantity(one.points[-1][1], 'bytes')}"
            for one in stretches
        ]
        sentences.append(f"{name}: {', '.join(phases)}.")
    return " ".join(sentences)
