"""The answer to ``explain``: for a terminal, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dsregress.advice import attribution
from dsregress.advice.attribution import MemoryShare, SiteDifference
from dsregress.compare.metrics import BY_NAME
from dsregress.probe.border.wire import Explanation, Moment, Refusal
from dsregress.report.plain_text import plain
from dsregress.wording.quantities import short_quantity

#: Of ``--json``. History: 1 first, 2 ``refusal``, 3 ``first_module``.
SCHEMA = 3

#: Rows of a list in the text; the rest is counted. The JSON has all of them.
_MOST_PLACES, _MOST_MODULES = 8, 6


def keys(explanation: Explanation) -> list[str]:
    """Return the keys of the moments to print, in order. Moments of a memory (device, host) that is never used are left
    out."""
    used = {
        memory
        for key, moment in explanation.moments.items()
        if moment.nbytes
        for memory in ("device", "host")
        if f".{memory}_" in key
    }
    return [key for key in explanation.moments if any(f".{memory}_" in key for memory in used)]


def explanation_text(cell: str, explanation: Explanation, wanted: Sequence[str]) -> str:
    """Return what holds the memory of one cell at the moments ``wanted``, for a terminal, ending in a newline."""
    blocks = [plain(cell)]
    for key in wanted:
        moment = explanation.moments[key]
        lines = [_heading(key, moment)]
        lines += _shares("category", attribution.by_category(moment), 99)
        modules = [share for share in attribution.by_module(moment) if share.nbytes]
        lines += _shares("module", modules, _MOST_MODULES)
        lines.append("  by place")
        lines += _first_rows(
            [_site(site, site.nbytes) for site in attribution.by_site(moment) if site.nbytes], _MOST_PLACES, "places"
        )
        blocks.append("\n".join(lines))
    if explanation.refusal is not None:
        blocks.insert(1, refusal_text(explanation.refusal))
    if explanation.note:
        blocks.append(plain(explanation.note))
    return "\n\n".join(blocks) + "\n"


def first_module_text(first_module: str) -> str:
    """Return where a cell first differs from plain PyTorch, for a terminal, ending in a newline; "" if it is in nothing."""
    return f"\nfirst difference from plain PyTorch: {plain(first_module)}\n" if first_module else ""


def refusal_text(refusal: Refusal) -> str:
    """Return a refused allocation in the words of torch's own message, with the place."""
    requested, room, allocated = (
        short_quantity(nbytes, "bytes")
        for nbytes in (refusal.requested_bytes, refusal.room_bytes, refusal.allocated_bytes)
    )
    unallocated = short_quantity(refusal.reserved_bytes - refusal.allocated_bytes, "bytes")
    free = short_quantity(max(0, refusal.room_bytes - refusal.reserved_bytes), "bytes")
    lines = [
        f"on its card: out of memory in {refusal.phase}. Tried to allocate {requested}; of {room} for tensors {free} are "
        f"free, {allocated} allocated, {unallocated} reserved but unallocated.",
        f"{'':23}at {plain(refusal.site)}",
    ]
    if refusal.module:
        lines.append(f"{'':23}for {plain(refusal.module)}")
    return "\n".join([*lines, *(f"{'':23}called by {plain(caller)}" for caller in refusal.via)])


def difference_as_text(
    cell: str, explanation: Explanation, against: str, other: Explanation, wanted: Sequence[str]
) -> str:
    """Return what one cell holds more and less than another, for a terminal, ending in a newline."""
    blocks = [f"{plain(cell)}\nagainst {plain(against)}"]
    for key in wanted:
        mine, theirs = explanation.moments[key], other.moments.get(key)
        if theirs is None:
            blocks.append(f"{_heading(key, mine)}\n  the other has no such moment")
            continue
        changed = [site for site in attribution.difference(mine, theirs) if site.more_bytes]
        total = mine.nbytes - theirs.nbytes
        lines = [f"{_moment_name(key)}: {mine.nbytes:,} B instead of {theirs.nbytes:,} B ({total:+,} B)"]
        lines += _first_rows([_site(site, site.more_bytes, sign=True) for site in changed], _MOST_PLACES, "places")
        if not changed:
            lines.append("  every place holds the same")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def explanation_json(
    cell: str,
    explanation: Explanation,
    wanted: Iterable[str],
    against: str = "",
    other: Explanation | None = None,
    first_module: str = "",
) -> bytes:
    """Return everything as JSON, with a schema number. With ``other``, each moment also has its ``difference``."""
    moments: dict[str, Any] = {}
    for key in wanted:
        moment = explanation.moments[key]
        described: dict[str, Any] = {
            "rank": moment.rank,
            "bytes": moment.nbytes,
            "categories": {share.name: share.nbytes for share in attribution.by_category(moment)},
            "modules": {share.name: share.nbytes for share in attribution.by_module(moment)},
            "held": msgspec.to_builtins(moment.held),
        }
        if other is not None and key in other.moments:
            described["other_bytes"] = other.moments[key].nbytes
            described["difference"] = [
                {**msgspec.to_builtins(site), "more_bytes": site.more_bytes}
                for site in attribution.difference(moment, other.moments[key])
            ]
        moments[key] = described
    content = {
        "schema": SCHEMA,
        "cell": cell,
        "against": against,
        "moments": moments,
        "timeline": msgspec.to_builtins(explanation.timeline),
        "note": explanation.note,
        "refusal": msgspec.to_builtins(explanation.refusal),
        "first_module": first_module,
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def _heading(key: str, moment: Moment) -> str:
    return f"{_moment_name(key)}: {moment.nbytes:,} B, rank {moment.rank}"


def _moment_name(key: str) -> str:
    """Return a moment's name: ``backward.device_peak_bytes`` -> ``backward, at its peak (device_peak_bytes)``."""
    phase, _, metric = key.partition(".")
    return f"{phase}, {'at its end' if BY_NAME[metric].phrase.after else 'at its peak'} ({metric})"


def _shares(what: str, shares: Sequence[MemoryShare], most: int) -> list[str]:
    rows = [f"{share.nbytes:>17,} B  {plain(share.name)}" for share in shares if share.nbytes]
    return [f"  by {what}", *_first_rows(rows, most, f"{what}s")]


def _first_rows(rows: Sequence[str], most: int, what: str) -> list[str]:
    kept = [f"  {row}" for row in rows[:most]]
    return [*kept, f"    and {len(rows) - most} more {what}"] if len(rows) > most else kept


def _site(site: SiteDifference, nbytes: int, *, sign: bool = False) -> str:
    figure = f"{nbytes:+,}" if sign else f"{nbytes:,}"
    size = short_quantity(abs(nbytes), "bytes")
    lines = [f"{figure:>17} B  {site.category}, {size}", f"{'':23}at {plain(site.site)}"]
    if site.modules:
        lines.append(f"{'':23}for {', '.join(map(plain, attribution.shorter(site.modules)))}")
    lines += [f"{'':23}called by {plain(caller)}" for caller in site.via]
    return "\n".join(lines)
