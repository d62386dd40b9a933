"""The advisories that ship with this package, or that its checkout has."""

from __future__ import annotations

import functools
from pathlib import Path

from dsregress.advisories import osv
from dsregress.advisories.advisory import Advisory


@functools.cache
def read_advisories() -> tuple[Advisory, ...]:
    """Return all advisories, by their ids."""
    return tuple(osv.decode_advisory(file.read_bytes()) for file in sorted(advisory_folder().glob("DSR-*.json")))


def advisory_folder() -> Path:
    """Return the folder of their files."""
    here = Path(__file__).resolve().parent
    shipped = here / "data"
    return shipped if shipped.is_dir() else here.parents[2] / "results" / "advisories"
