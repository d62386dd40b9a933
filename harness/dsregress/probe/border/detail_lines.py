"""Lines that are added to the end of a failure's detail, each with one thing that a report reads again. Standard library
only."""

from __future__ import annotations

import re


class _Line:
    """A line with one place for what it tells, which ``told`` matches."""

    def __init__(self, line: str, told: str) -> None:
        self._line = line
        self._read = re.compile(re.escape(line).replace(re.escape("{}"), told))

    def telling(self, told: str) -> str:
        return self._line.format(told)

    def told_in(self, detail: str) -> str:
        """Return what the line tells at the end of a detail, where others may follow it; empty without one."""
        found = [self._read.fullmatch(line) for line in detail.splitlines()[-3:]]
        return next((one[1] for one in found if one is not None), "")


_REFUSED = _Line("The call does not go with the installed {}.", r"(\w+)")
_GATHERED = _Line("It gathered copies of its own objects at {}.", r"(\S+) in \S+")


def refused_by(package: str) -> str:
    """Return the line for a package whose object did not take a call, by the name of its module."""
    return _REFUSED.telling(package)


def package_refusing(detail: str) -> str:
    """Return the module whose package did not take a call, as the end of a failure's detail says; empty if none did."""
    return _REFUSED.told_in(detail)


def gathered_at(place: str) -> str:
    """Return the line for the place at which a simulated rank gathered its own objects, as `vgpu.sim.errors.location` gives
    it."""
    return _GATHERED.telling(place)


def place_of_gathering(detail: str) -> str:
    """Return that place, as the end of a failure's detail says it; empty if it says none."""
    return _GATHERED.told_in(detail)


def is_added(line: str) -> bool:
    """Return True for such a line: the failure's own last one is before it."""
    return bool(package_refusing(line) or place_of_gathering(line))
