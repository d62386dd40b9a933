"""The line of a failure's detail that names the package whose object did not take a call. Standard library only."""

from __future__ import annotations

import re

_LINE = "The call does not go with the installed {}."
_READ = re.compile(re.escape(_LINE).replace(re.escape("{}"), r"(\w+)"))


def refused_by(package: str) -> str:
    """Return the line for a package, by the name of its module."""
    return _LINE.format(package)


def package_refusing(detail: str) -> str:
    """Return the module whose package did not take a call, as the end of a failure's detail says; empty if none did."""
    found = [_READ.fullmatch(line) for line in detail.splitlines()[-3:]]
    return next((one[1] for one in found if one is not None), "")
