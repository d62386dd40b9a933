"""The provenance of an answer's cells, in words."""

from __future__ import annotations

from collections.abc import Sequence

from dsregress.advice.provenance import MeasuredBy
from dsregress.wording.quantities import plural


def sources(found: Sequence[MeasuredBy]) -> list[str]:
    """Return one line that names the sources of the figures; no line if nothing was measured."""
    if not found:
        return []
    if len(found) == 1:
        return [f"Measured by {_one(found[0])}."]
    each = "; ".join(f"{plural(len(one.cells), 'cell')} by {_one(one)}" for one in found)
    return [f"Measured by {len(found)} different sources, whose figures may not be comparable: {each}."]


def _one(found: MeasuredBy) -> str:
    days = found.first_day if found.first_day == found.last_day else f"{found.first_day} to {found.last_day}"
    on = f" on {found.hardware}" if found.hardware else ""
    return f"version {found.measuring_version} of the probe{on}, {days}"
