"""The modules that are imported, looked at without importing any more: a lazy module answers a question about a name by an
import, which changes ``sys.modules`` under whoever walks it. Standard library only."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


def loaded_modules() -> list[tuple[str, ModuleType, dict[str, Any]]]:
    """Of each module that is imported now: its full name, itself, and the names that it holds itself."""
    found = []
    for name, module in list(sys.modules.items()):
        held = getattr(module, "__dict__", None)  # frameworks put all sorts of things there
        if isinstance(name, str) and isinstance(held, dict):
            found.append((name, module, held))
    return found
