"""Versions as reports paste them: tables of ``pip list`` and ``conda list``, the block of ``transformers-cli env``. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TABLE = re.compile(r"^\s*(?:Package|#\s*Name)\s+Version\b", re.IGNORECASE)
_ROW = re.compile(r"^\s*(?P<name>[A-Za-z0-9][\w.-]*)\s+(?P<version>\d\S*)(?:\s|$)")

#: A line of ``conda list --export``: ``pytorch=2.6.0=py3.11_cuda12.4_cudnn9.1.0_0``.
_EXPORTED = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)=(?P<version>\d[^=\s]*)=[^=\s]+$")

#: ``- `transformers` version: 4.57.6``, ``- PyTorch version (GPU?): 2.6.0+cu124 (True)``
_FACT = re.compile(r"^\s*-\s+`?(?P<name>[A-Za-z][\w.-]*)`? version(?: \([^)]*\))?: (?P<version>\d\S*)")

#: conda's name -> the package's, where they are not the same.
CONDA_NAMES = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch"}

#: Names in these -> names of packages, where they are not the same but for case; None for what is no package.
_NAMES = {**CONDA_NAMES, "python": None}


def as_requirements(text: str) -> str:
    """Return the text with a pasted table or block as lines of pins, each in its place; another text as it is."""
    lines = text.splitlines()
    if any(map(_TABLE.match, lines)):
        return "\n".join(_of_table(lines))
    for form in (_EXPORTED, _FACT):
        if any(map(form.match, lines)):
            return "\n".join(map(_pin, map(form.match, lines)))
    return text


def _of_table(lines: list[str]) -> Iterator[str]:
    is_inside = False
    for line in lines:
        is_inside = is_inside or _TABLE.match(line) is not None
        yield _pin(_ROW.match(line) if is_inside else None)


def _pin(found: re.Match[str] | None) -> str:
    """Return the pin of a name with a version; empty for what is none, or is no package."""
    if found is None:
        return ""
    name = found["name"].lower()
    name = _NAMES.get(name, name)
    return f"{name}=={found['version']}" if name else ""
