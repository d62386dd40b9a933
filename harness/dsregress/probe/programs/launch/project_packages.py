"""The project in whose folder the launch line is typed: what ``pip install -e .`` makes importable, as its README asks.

Its own packages and modules, in the folder or in ``src``, are found after everything in the environment. A folder
without an ``__init__.py`` does not count as a package: ``datasets/`` would hide that a library is missing.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


def package_folders(folder: Path) -> list[str]:
    """Return the folders of the packages of the project in ``folder``; empty if there is no project."""
    if not any((folder / name).is_file() for name in _FILES):
        return []
    return [str(each) for each in (folder, folder / "src") if each.is_dir()]


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Make the packages of the project in ``folder``, if there is one, importable within the block."""
    finder = _OwnPackages(package_folders(folder))
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _OwnPackages:
    """A finder of ``sys.meta_path``."""

    def __init__(self, folders: list[str]) -> None:
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None:  # a part of a package, which is found by the package
            return None
        spec = PathFinder.find_spec(name, self._folders, target)
        return spec if spec is not None and spec.origin is not None else None
