"""Versions as reports paste them: the table of ``pip list``, or the block that ``transformers-cli env`` prints. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TABLE = re.compile(r"^\s*Package\s+Version\b", re.IGNORECASE)
_ROW = re.compile(r"^\s*(?P<name>[A-Za-z0-9][\w.-]*)\s+(?P<version>\d\S*)(?:\s|$)")

#: ``- `transformers` version: 4.57.6``, ``- PyTorch version (GPU?): 2.6.0+cu124 (True)``
_FACT = re.compile(r"^\s*-\s+`?(?P<name>[A-Za-z][\w.-]*)`? version(?: \([^)]*\))?: (?P<version>\d\S*)")

#: Names in such a block -> names of packages, where they are not the same but for case; None for what is no package.
_NAMES = {"pytorch": "torch", "python": None}


def as_requirements(text: str) -> str:
    """Return the text with a pasted table or block as lines of pins, each in its place; another text as it is."""
    lines = text.splitlines()
    if any(map(_TABLE.match, lines)):
        return "\n".join(_of_table(lines))
    if any(map(_FACT.match, lines)):
        return "\n".join(_of_block(lines))
    return text


def _of_table(lines: list[str]) -> Iterator[str]:
    is_inside = False
    for line in lines:
        is_inside = is_inside or _TABLE.match(line) is not None
        row = _ROW.match(line) if is_inside else None
        yield f"{row['name']}=={row['version']}" if row else ""


def _of_block(lines: list[str]) -> Iterator[str]:
    for line in lines:
        fact = _FACT.match(line)
        name = _NAMES.get(fact["name"].lower(), fact["name"].lower()) if fact else None
        yield f"{name}=={fact['version']}" if fact and name else ""
