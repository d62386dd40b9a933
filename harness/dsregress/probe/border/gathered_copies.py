"""The line of a failure's detail that says where a simulated rank gathered its own objects. Standard library only."""

from __future__ import annotations

import re

_LINE = "It gathered copies of its own objects at {}."
_READ = re.compile(re.escape(_LINE).replace(re.escape("{}"), r"(\S+) in \S+"))


def gathered_at(place: str) -> str:
    """Return the line for a place, as `vgpu.sim.errors.location` gives it."""
    return _LINE.format(place)


def place_of_gathering(detail: str) -> str:
    """Return that place, as the end of a failure's detail says it; empty if it says none."""
    found = [_READ.fullmatch(line) for line in detail.splitlines()[-3:]]
    return next((one[1] for one in found if one is not None), "")
