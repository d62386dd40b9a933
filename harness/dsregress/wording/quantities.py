"""Numbers and names in words, as plain text: each format escapes what it must."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_BINARY = ("KiB", "MiB", "GiB", "TiB", "PiB")
_DECIMAL = ("k", "M", "G", "T", "P", "E")


def quantity(value: float, unit: str) -> str:
    """Return ``2.1 MiB``, ``669,833 calls``, ``1.24 s``, ``12.3 Gflop``; negative values keep their sign."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite"
    if unit == "bytes":
        return _bytes(value)
    if unit == "s":
        return f"{value:.2f} s" if abs(value) >= 1 else f"{value * 1000:.1f} ms"
    if unit == "operations":
        return f"{_scaled(value, 1000, _DECIMAL, '')}flop"
    if unit == "tolerances":
        return f"{value:.3g} times the tolerance"
    return f"{value:,.0f} {unit}".rstrip()


def short_quantity(value: float, unit: str) -> str:
    """Return the same as `quantity` for the cells of a table: without the words of its column's heading."""
    text = quantity(value, unit)
    return text.removesuffix(f" {unit}") if unit not in ("bytes", "s") else text


def share(value: float, baseline: float) -> str:
    """Return ``2.6x`` if a value at least doubled, ``+12 %`` if it changed less, ``from 0`` if it has no ratio."""
    if baseline == 0:
        return "from 0"
    ratio = value / baseline
    if ratio >= 2:
        return f"{ratio:.2g}x" if ratio < 10 else f"{ratio:,.0f}x"
    percent = (ratio - 1) * 100
    return f"{percent:+.0f} %" if abs(percent) >= 1 else f"{percent:+.1g} %"


def listing(names: Sequence[str], most: int = 6) -> str:
    """Return ``a, b, c and 4 more``."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def enumeration(names: Sequence[str]) -> str:
    """Return ``a, b and c``; empty without names. `dsregress.probe.factor.either` is the same with "or"."""
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def plural(count: int, noun: str, many: str = "") -> str:
    """Return ``1 cell``, ``1,200 cells``; ``many`` is the plural if it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def left_text(left: Mapping[str, int]) -> str:
    """Return ``left 3 processes running, which were ended: ninja, sleep (2)``, from names and their counts."""
    names = [name if count == 1 else f"{name} ({count})" for name, count in left.items()]
    was = "was" if sum(left.values()) == 1 else "were"
    return f"left {plural(sum(left.values()), 'process', 'processes')} running, which {was} ended: {listing(names)}"


def shortened(text: str, most: int = 160) -> str:
    """Return the text as one line of at most ``most`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _bytes(value: float) -> str:
    if abs(value) < 1024:
        return f"{value:.0f} B"
    return _scaled(value, 1024, _BINARY, " ")


def _scaled(value: float, base: int, names: Sequence[str], empty: str) -> str:
    scaled, name = float(value), empty
    for step in names:
        if abs(scaled) < base * 0.9995:
            break
        scaled, name = scaled / base, step
    digits = 2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0
    number = f"{scaled:.{digits}f}" if name != empty else f"{scaled:,.0f}"
    return f"{number} {name}" if name != empty else f"{number} "
