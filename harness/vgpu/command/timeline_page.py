"""The live bytes of a run over time, as one self-contained page."""

from __future__ import annotations

import html
import math
from pathlib import Path

from vgpu.command.run_summary import summary_text
from vgpu.meters.ledger import DEVICE
from vgpu.timeline import envelope
from vgpu.virtual_gpu import VirtualGpu

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 1100, 380, 70, 24
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
_COLOURS = {"init": "#8d99ae", "forward": "#2a9d8f", "backward": "#e76f51", "step": "#e9c46a", "evaluate": "#6d597a"}

_PAGE = Path(__file__).with_suffix(".html")


def timeline_page(gpu: VirtualGpu) -> str:
    """Return the page."""
    totals = _totals(gpu)
    peak = max(totals)
    room = gpu.card.usable_bytes
    top = max(peak, 1) * 1.08
    if room < 2 * top:
        top = max(top, room * 1.04)
    return _PAGE.read_text(encoding="utf-8").format(
        title=html.escape(f"rank {gpu.rank} of {gpu.world_size} on {gpu.card.name}"),
        peak=peak,
        width=_WIDTH,
        height=_HEIGHT,
        drawing="".join((*_axis(top), *_spans(gpu, totals, top), *(_card_line(gpu, top) if room <= top else ()))),
        key="".join(
            f'<span><i style="background:{_COLOURS[name]}"></i> {name}</span>'
            for name in _COLOURS
            if any(span.name == name for span in gpu.spans)
        ),
        summary=html.escape(summary_text(gpu)),
    )


def _totals(gpu: VirtualGpu) -> list[int]:
    totals = [0]
    for _, nbytes, memory, _ in gpu.trace:
        totals.append(totals[-1] + (nbytes if memory == DEVICE else 0))
    return totals


def _spans(gpu: VirtualGpu, totals: list[int], top: float) -> list[str]:
    """Return an area for each run of a phase; what no phase has read, such as the end of a failed one, comes last."""
    drawn, begin, count = [], 0, max(1, len(totals) - 1)
    ends = [(span.name, span.step, span.event) for span in gpu.spans]
    if not ends or ends[-1][2] < count:
        ends.append(("after", gpu.steps, len(totals) - 1))
    for name, step, end in ends:
        left, right = _x(begin / count), _x(end / count)
        points = " ".join(
            f"{left + (right - left) * at / 1000:.1f},{_y(nbytes, top):.1f}"
            for at, nbytes in envelope(totals, begin, end)
        )
        most = max(totals[begin : end + 1])
        drawn.append(
            f'<polygon points="{left:.1f},{_y(0, top):.1f} {points} {right:.1f},{_y(0, top):.1f}" '
            f'fill="{_COLOURS.get(name, "#bbb")}"><title>{name}, step {step}: peak {most:,} bytes</title></polygon>'
        )
        begin = end
    return drawn


def _axis(top: float) -> list[str]:
    unit, name = next(((size, name) for size, name in _UNITS if top >= size), _UNITS[-1])
    drawn = []
    step = _round_step(top / unit / 4)
    for number in range(int(top / unit / step) + 1):
        y = _y(number * step * unit, top)
        drawn.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        drawn.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number * step:g} {name}</text>')
    return drawn


def _round_step(step: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, ... from a step on."""
    power: float = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step)


def _card_line(gpu: VirtualGpu, top: float) -> list[str]:
    y = _y(gpu.card.usable_bytes, top)
    return [
        f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#b00020" stroke-dasharray="6 4"/>',
        f'<text x="{_WIDTH - 4}" y="{y - 5:.1f}" text-anchor="end">{html.escape(gpu.card.name)}</text>',
    ]


def _x(share: float) -> float:
    return _LEFT + (_WIDTH - _LEFT) * share


def _y(nbytes: float, top: float) -> float:
    return (_HEIGHT - _BOTTOM) * (1 - nbytes / top) + 8
