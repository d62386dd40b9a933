"""Remembers where a simulated rank was given its own objects in place of those of other ranks, which only these know.
Standard library only."""

from __future__ import annotations

_places: list[str] = []


def note_copies(place: str) -> None:
    """Note that objects were gathered at ``place``."""
    _places[:] = [place]


def place_of_copies() -> str:
    """Return the place at which this process gathered copies of its own objects last; empty if it did not."""
    return _places[-1] if _places else ""
