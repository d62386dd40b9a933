"""The packages that a workload uses, told by the objects that it has made. Standard library only.

What is imported tells nothing: frameworks import packages that they may need, and the server imports ahead what programs may
import. Functions that leave no object of their package are not seen.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator

#: Folders of installed packages.
_INSTALLED = frozenset(("site-packages", "dist-packages"))

#: More names than that are not kept: no job uses so many.
_MOST_NAMES = 64


class UsedPackages:
    """Looks for objects of classes that have none when it is made, which is before the workload begins."""

    def __init__(self) -> None:
        self._before = _classes_with_objects()

    def named(self) -> list[str]:
        """Return the top-level modules of the installed packages that define such a class, or a base of it."""
        classes = _classes_with_objects() - self._before
        modules = {_top_module(base) for one in classes for base in one.__mro__}
        return sorted(name for name in modules if _is_installed(name))[:_MOST_NAMES]


def _classes_with_objects() -> set[type]:
    """Return the classes of all objects but those that `gc.freeze` has put aside, as it does with what is imported ahead."""
    return {type(one) for one in gc.get_objects()}


def _top_module(one: type) -> str:
    module = vars(one).get("__module__")
    return module.partition(".")[0] if isinstance(module, str) else ""


def _is_installed(name: str) -> bool:
    return any(os.path.basename(os.path.dirname(folder)) in _INSTALLED for folder in _folders(name))


def _folders(name: str) -> Iterator[str]:
    """Yield the folders of a package; none of a module that is a file."""
    for folder in getattr(sys.modules.get(name), "__path__", ()):
        if isinstance(folder, str):
            yield folder
