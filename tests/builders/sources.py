"""Files of this project as Python parses them."""

from __future__ import annotations

import ast
import functools
from pathlib import Path


@functools.cache
def parsed(file: Path) -> ast.Module:
    """Its syntax tree, which all tests of a process share."""
    return ast.parse(file.read_text(encoding="utf-8"))
