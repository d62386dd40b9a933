"""The project in whose folder the launch line is typed: what ``pip install -e .`` makes importable, as its README asks.

Its own packages and modules, in the folder or in ``src``, are found after everything in the environment. A folder without an
``__init__.py`` is a package if it has code, and is in ``src`` or named by the project's files: any other, as
``datasets/``, would hide that a library is missing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

_FILES = ("pyproject.toml", "setup.py", "setup.cfg")

#: Files of a folder that are looked at for code.
_MOST_FILES = 2_000


def package_folders(folder: Path) -> list[str]:
    """Return the folders of the packages of the project in ``folder``; empty if there is no project."""
    if not any((folder / name).is_file() for name in _FILES):
        return []
    return [str(each) for each in (folder, folder / "src") if each.is_dir()]


def has_code(folder: str) -> bool:
    """Return True if Python files are in a folder or below it."""
    files = itertools.chain.from_iterable(files for _, _, files in os.walk(folder))
    return any(name.endswith(".py") for name in itertools.islice(files, _MOST_FILES))


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Make the packages of the project in ``folder``, if there is one, importable within the block."""
    finder = _OwnPackages(folder, package_folders(folder))
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _OwnPackages:
    """A finder of ``sys.meta_path``."""

    def __init__(self, project: Path, folders: list[str]) -> None:
        self._project = project
        self._folders = folders

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if path is not None:  # a part of a package, which is found by the package
            return None
        spec = PathFinder.find_spec(name, self._folders, target)
        if spec is None or spec.origin is not None:
            return spec
        folders = [folder for folder in spec.submodule_search_locations or () if self._is_package(folder)]
        if not folders:
            return None
        namespace = ModuleSpec(name, None, is_package=True)
        namespace.submodule_search_locations = folders
        return namespace

    def _is_package(self, folder: str) -> bool:
        """Return True if a folder without ``__init__.py`` is one of the project's packages."""
        where, name = os.path.split(folder)
        return has_code(folder) and (os.path.basename(where) == "src" or name in self._named_packages())

    def _named_packages(self) -> set[str]:
        """Return the words in the project's files: they name its packages."""
        files = [self._project / name for name in _FILES]
        texts = [file.read_text("utf-8", "replace") for file in files if file.is_file()]
        return {word for text in texts for word in re.findall(r"\w+", text)}
