"""Lists the imported modules without importing any more: a lazy module answers a lookup of a name by an import, which
changes ``sys.modules`` during iteration over it. Standard library only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType


def loaded_modules() -> list[tuple[str, ModuleType, dict[str, object]]]:
    """Return the full name of each module imported so far, the module, and its own names."""
    found = []
    for name, module in list(sys.modules.items()):
        held = getattr(module, "__dict__", None)  # frameworks put all sorts of things there
        if isinstance(name, str) and isinstance(held, dict):
            found.append((name, module, held))
    return found


def names_of_modules() -> Iterator[dict[str, object]]:
    """Yield the own names of each module imported so far. Each rank walks the thousands of them a hundred times, so nothing
    is made of them: it would set off the garbage collector, which would walk all objects of a fork."""
    for module in list(sys.modules.values()):
        held = getattr(module, "__dict__", None)
        if isinstance(held, dict):
            yield held
